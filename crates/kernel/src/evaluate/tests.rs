//! Whole queries over small messages. Queries are written as words; what they mean is tested against libxml2 from Python.

use super::*;
use crate::engine::Engine;
use crate::matcher::Matcher;
use crate::names::{ANY, NODE};
use crate::paths::Step;
use crate::shapes::select::Form;
use crate::xml::Limits;
use std::sync::Arc;

/// Words of expressions, as `program` says.
fn number(x: f64) -> Vec<u32> {
    vec![0, x.to_bits() as u32, (x.to_bits() >> 32) as u32]
}

fn compare(op: u32, a: Vec<u32>, b: Vec<u32>) -> Vec<u32> {
    [vec![4, op], a, b].concat()
}

fn call(function: u32, arguments: &[Vec<u32>]) -> Vec<u32> {
    [vec![7, function, arguments.len() as u32], arguments.concat()].concat()
}

fn step(axis: u32, symbol: u32, predicates: &[Vec<u32>]) -> Vec<u32> {
    [vec![axis, 0, symbol, predicates.len() as u32], predicates.concat()].concat()
}

fn path(start: u32, steps: &[Vec<u32>]) -> Vec<u32> {
    [vec![11, start, steps.len() as u32], steps.concat()].concat()
}

const DOCUMENT: u32 = 9;
const CONTEXT: u32 = 10;
const CHILD: u32 = 0;
const PARENT: u32 = 5;
const FOLLOWING: u32 = 10;
const DEEP_CHILD: u32 = 13;
const COUNT: u32 = 2;

/// Adds a subscription to messages that have an element and satisfy a query.
fn add(engine: &mut Engine, words: &[u32], strings: &[&str]) -> Result<u32, &'static str> {
    let number = engine.reserve(1)[0];
    engine.add_many(&[number], &[Step::new(true, ANY)], &[1], &[1])?;
    let added = engine.add_query(number, words, strings);
    if added.is_err() {
        engine.remove(number);
    }
    added.map(|()| number)
}

/// Returns what becomes of all subscriptions of an engine, by number.
fn evaluate(engine: &Engine, xml: &str, budget: Budget) -> Vec<Result<bool, Exceeded>> {
    let mut matcher = Matcher::new(engine);
    let limits = Limits { max_query_steps: budget.steps, max_query_bytes: budget.bytes, ..Limits::default() };
    let mut found = vec![];
    matcher.read_sorted(engine, xml.as_bytes(), &limits, &mut found).unwrap();
    let mut outcomes = vec![Ok(false); engine.bound()];
    found.iter().for_each(|&number| outcomes[number as usize] = Ok(true));
    matcher.failed().iter().for_each(|one| outcomes[one.number as usize] = Err(one.why));
    outcomes
}

fn enough() -> Budget {
    Budget::of(&Limits::default())
}

/// An engine with elements `a` and `b`, and queries about these that share parts: `//a`, `//b`, `//a[following::b]`,
/// `count(//a[following::b]) > 1`, `//a = //b`, `//b/*`.
fn some_queries() -> (Engine, Vec<Vec<u32>>) {
    let mut engine = Engine::new(1 << 20);
    let names = engine.names_mut();
    let (a, b) = (names.intern(false, b"", Some(b"a")), names.intern(false, b"", Some(b"b")));
    let following = path(CONTEXT, &[step(FOLLOWING, b, &[])]);
    let before = path(DOCUMENT, &[step(DEEP_CHILD, a, &[following])]);
    let (all_a, all_b) = (path(DOCUMENT, &[step(DEEP_CHILD, a, &[])]), path(DOCUMENT, &[step(DEEP_CHILD, b, &[])]));
    let children = path(DOCUMENT, &[step(DEEP_CHILD, b, &[]), step(CHILD, ANY, &[])]);
    let several = compare(4, call(COUNT, std::slice::from_ref(&before)), number(1.0));
    let equal = compare(0, all_a.clone(), all_b.clone());
    (engine, vec![all_a, all_b, before, several, equal, children])
}

/// The same with the queries in this order.
fn engine_with(order: &[usize]) -> Engine {
    let (mut engine, programs) = some_queries();
    for &at in order {
        add(&mut engine, &programs[at], &[]).unwrap();
    }
    engine
}

const ALL: [usize; 6] = [0, 1, 2, 3, 4, 5];

const MESSAGE: &str = "<r><a>1</a><a>2</a><b>2<c/></b><a>3</a><a>4</a><b>5</b><b/></r>";

#[test]
fn equal_expressions_of_several_queries_are_one_and_go_with_the_last() {
    let mut engine = engine_with(&ALL);
    // the document, the context, 1, //a, //b, following::b, //a[…], count(…), count(…) > 1, //a = //b, //b/*
    assert_eq!(engine.queries.expressions(), 11);
    assert_eq!(evaluate(&engine, MESSAGE, enough()), vec![Ok(true); 6]);
    for number in 0..6 {
        assert!(engine.has_query(number) && engine.remove(number) && !engine.has_query(number));
    }
    assert_eq!(engine.queries.expressions(), 0);
    assert!(engine.queries.is_empty());
}

#[test]
fn a_saved_engine_has_the_same_queries() {
    struct Bytes(Vec<u8>);
    // SAFETY: nobody changes the vector, and its bytes do not move.
    unsafe impl crate::Held for Bytes {
        fn bytes(&self) -> &[u8] {
            &self.0
        }
    }
    let open = |bytes| Engine::open(Arc::new(Bytes(bytes)), 1 << 20);
    let mut engine = engine_with(&ALL);
    let unused = engine.names_mut().intern(false, b"", Some(b"unused"));
    let text = [vec![7, 10, 2], path(DOCUMENT, &[step(PARENT, NODE, &[])]), vec![1, 0]].concat();
    add(&mut engine, &text, &["x"]).unwrap();
    engine.remove(1);
    let saved = engine.save();
    let opened = open(saved.clone()).unwrap();
    assert!(opened.names().describe(unused).is_none());
    assert_eq!(opened.queries.expressions(), engine.queries.expressions());
    assert_eq!(evaluate(&opened, MESSAGE, enough()), evaluate(&engine, MESSAGE, enough()));
    assert_eq!(opened.save(), saved);
    // files of earlier versions end before the queries or before what is selected; no other part of a file is one
    let opens = |end: &usize| open(saved[..*end].to_vec()).is_ok();
    assert_eq!((0..saved.len()).step_by(8).filter(opens).count(), 2);
}

/// The least steps with which a query does not fail.
fn least_steps(engine: &Engine, at: usize) -> u64 {
    let answers = |steps| evaluate(engine, MESSAGE, Budget { steps, bytes: 1 << 20 })[at].is_ok();
    (0..10_000).find(|&steps| answers(steps)).unwrap()
}

#[test]
fn what_a_query_pays_does_not_depend_on_its_neighbours() {
    let (together, reversed) = (engine_with(&ALL), engine_with(&[5, 4, 3, 2, 1, 0]));
    for at in ALL {
        let alone = least_steps(&engine_with(&[at]), 0);
        assert_eq!(least_steps(&together, at), alone, "{at}");
        assert_eq!(least_steps(&reversed, 5 - at), alone, "{at}");
        assert_eq!(least_steps(&engine_with(&[at, at]), 1), alone, "{at}");
    }
}

#[test]
fn a_query_that_exceeds_its_budget_fails_alone() {
    let engine = engine_with(&ALL);
    let cheap = least_steps(&engine, 0);
    let outcomes = evaluate(&engine, MESSAGE, Budget { steps: cheap, bytes: 1 << 20 });
    assert_eq!(outcomes[0], Ok(true));
    assert_eq!(outcomes[3], Err(Exceeded::Steps));
    let outcomes = evaluate(&engine, MESSAGE, Budget { steps: 10_000, bytes: 0 });
    assert_eq!(outcomes[4], Err(Exceeded::Bytes));
}

/// A thread of Python has as much stack; without optimisation a frame takes several times what it takes else.
#[test]
fn nested_expressions_and_deep_messages_do_not_exhaust_the_stack() {
    let thread = std::thread::Builder::new().stack_size(8 << 20).spawn(nest_deeply).unwrap();
    thread.join().unwrap();
}

fn nest_deeply() {
    let mut engine = Engine::new(1 << 20);
    // parent::*[parent::*[…]], as deeply as the decoder allows
    let mut words = number(1.0);
    for _ in 0..498 {
        words = path(CONTEXT, &[step(PARENT, ANY, &[words])]);
    }
    let deepest = path(DOCUMENT, &[step(DEEP_CHILD, ANY, &[words.clone()])]);
    add(&mut engine, &deepest, &[]).unwrap();
    let deeper = path(CONTEXT, &[step(PARENT, ANY, std::slice::from_ref(&deepest))]);
    assert_eq!(add(&mut engine, &deeper, &[]), Err("a program nested too deeply"));
    // a long chain of steps is no nesting
    let steps = vec![step(CHILD, NODE, &[]); 20_000];
    add(&mut engine, &path(DOCUMENT, &steps), &[]).unwrap();
    let depth = 900;
    let xml = "<a>".repeat(depth) + &"</a>".repeat(depth);
    assert_eq!(evaluate(&engine, &xml, enough()), [Ok(true), Ok(false)]);
    assert!(!engine.save().is_empty() && engine.remove(0) && engine.remove(1));
}

#[test]
fn malformed_programs_are_refused() {
    let mut engine = Engine::new(1 << 20);
    let valid = compare(0, call(COUNT, &[path(DOCUMENT, &[step(DEEP_CHILD, ANY, &[number(1.0)])])]), number(2.0));
    let only = add(&mut engine, &valid, &[]).unwrap();
    for end in 0..valid.len() {
        assert!(add(&mut engine, &valid[..end], &[]).is_err(), "{end}");
    }
    for (words, why) in [
        ([&valid[..], &[0]].concat(), "words after the end of a program"),
        (vec![1, 0], "a string that is not there"),
        (vec![99], "an unknown expression"),
        (call(99, &[]), "an unknown word"),
        (call(COUNT, &[]), "a function with too few or too many arguments"),
        (call(COUNT, &[number(1.0)]), "a value where a node-set is needed"),
        (path(DOCUMENT, &[step(CHILD, 1 << 20, &[])]), "a test for an unknown symbol"),
        (path(DOCUMENT, &[step(CHILD, 1, &[])]), "a test that does not belong to its axis"),
        (vec![2, u32::MAX], "a program that ends early"),
    ] {
        assert_eq!(add(&mut engine, &words, &[]), Err(why));
    }
    assert_eq!(engine.add_query(99, &valid, &[]), Err("no such subscription"));
    assert_eq!(engine.want_query(only, Form::Nodes), Err("only a node-set selects nodes"));
    assert_eq!(engine.len(), 1);
}

/// Whatever the words, they are refused or can be evaluated, and saved as they are.
#[test]
fn random_words_do_no_harm() {
    let mut engine = Engine::new(1 << 20);
    engine.names_mut().intern(false, b"", Some(b"a"));
    let mut state = 1u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut accepted = 0;
    for _ in 0..200_000 {
        // small words mostly, for large ones are refused at once
        let words: Vec<u32> = (0..1 + random(24))
            .map(|_| {
                let below = if random(20) == 0 { 1 << 31 } else { 14 };
                random(below) as u32
            })
            .collect();
        if let Ok(number) = add(&mut engine, &words, &["a", "x"]) {
            accepted += 1;
            evaluate(&engine, MESSAGE, Budget { steps: 1000, bytes: 1000 });
            let (strings, saved) = {
                let (mut strings, mut saved) = (Strings::default(), vec![]);
                engine.queries.programs(&mut strings, |_, words| saved.extend_from_slice(words));
                (strings.list.iter().map(|s| String::from_utf8(s.to_vec()).unwrap()).collect::<Vec<_>>(), saved)
            };
            let (query, strings) = (engine.queries.of(number), strings.iter().map(|s| &**s).collect::<Vec<_>>());
            let again = add(&mut engine, &saved, &strings).unwrap();
            assert_eq!(engine.queries.of(again), query);
            assert!(engine.remove(again) && engine.remove(number));
        }
    }
    assert!(accepted > 1000, "{accepted}");
}
