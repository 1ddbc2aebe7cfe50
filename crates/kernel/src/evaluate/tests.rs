//! Whole queries over small messages. Queries are written as words; what they mean is tested against libxml2 from Python.

use super::*;
use crate::names::{Names, ANY, NODE};
use crate::xml::Limits;

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

fn evaluate(queries: &Queries, names: &Names, xml: &str, budget: Budget, asked: &[QueryId]) -> Vec<Outcome> {
    let (mut trees, mut scratch) = (Trees::default(), Scratch::default());
    let mut outcomes = vec![];
    let read = trees.read(xml.as_bytes(), &Limits::default(), names, |tree| {
        queries.evaluate(tree, budget, asked.iter().copied(), &mut scratch, |_, outcome| outcomes.push(outcome));
    });
    assert!(read.is_ok());
    outcomes
}

/// Queries about elements `a` and `b` that share parts: `//a`, `//b`, `//a[following::b]`, `count(//a[following::b]) > 1`,
/// `//a = //b`, `//b/*`.
fn some_queries() -> (Queries, Names, Vec<QueryId>) {
    let mut names = Names::new();
    let (a, b) = (names.intern(false, b"", Some(b"a")), names.intern(false, b"", Some(b"b")));
    let following = path(CONTEXT, &[step(FOLLOWING, b, &[])]);
    let before = path(DOCUMENT, &[step(DEEP_CHILD, a, &[following])]);
    let (all_a, all_b) = (path(DOCUMENT, &[step(DEEP_CHILD, a, &[])]), path(DOCUMENT, &[step(DEEP_CHILD, b, &[])]));
    let children = path(DOCUMENT, &[step(DEEP_CHILD, b, &[]), step(CHILD, ANY, &[])]);
    let several = compare(4, call(COUNT, std::slice::from_ref(&before)), number(1.0));
    let equal = compare(0, all_a.clone(), all_b.clone());
    let mut queries = Queries::default();
    let programs = [all_a, all_b, before, several, equal, children];
    let ids = programs.iter().map(|words| queries.add(words, &[], false, &names).unwrap()).collect();
    (queries, names, ids)
}

const MESSAGE: &str = "<r><a>1</a><a>2</a><b>2<c/></b><a>3</a><a>4</a><b>5</b><b/></r>";

#[test]
fn equal_expressions_of_several_queries_are_one_and_go_with_the_last() {
    let (mut queries, names, ids) = some_queries();
    // the document, the context, 1, //a, //b, following::b, //a[…], count(…), count(…) > 1, //a = //b, //b/*
    assert_eq!(queries.expressions(), 11);
    let (again, _, _) = some_queries();
    assert_eq!(again.expressions(), 11);
    assert_eq!(evaluate(&queries, &names, MESSAGE, Budget::default(), &ids), vec![Outcome::Holds(true); 6]);
    for id in ids {
        assert!(queries.remove(id) && !queries.remove(id));
    }
    assert_eq!(queries.expressions(), 0);
}

/// The least steps with which a query does not fail.
fn least_steps(queries: &Queries, names: &Names, asked: &[QueryId], at: usize) -> u64 {
    let answers = |steps| {
        let outcomes = evaluate(queries, names, MESSAGE, Budget { steps, bytes: 1 << 20 }, asked);
        !matches!(outcomes[at], Outcome::Failed(_))
    };
    (0..10_000).find(|&steps| answers(steps)).unwrap()
}

#[test]
fn what_a_query_pays_does_not_depend_on_its_neighbours() {
    let (queries, names, ids) = some_queries();
    for (at, &id) in ids.iter().enumerate() {
        let alone = least_steps(&queries, &names, &[id], 0);
        assert_eq!(least_steps(&queries, &names, &ids, at), alone, "{id:?}");
        let mut reversed = ids.clone();
        reversed.reverse();
        assert_eq!(least_steps(&queries, &names, &reversed, ids.len() - 1 - at), alone, "{id:?}");
        assert_eq!(least_steps(&queries, &names, &[id, id], 1), alone, "{id:?}");
    }
}

#[test]
fn a_query_that_exceeds_its_budget_fails_alone() {
    let (queries, names, ids) = some_queries();
    let cheap = least_steps(&queries, &names, &ids[..1], 0);
    let outcomes = evaluate(&queries, &names, MESSAGE, Budget { steps: cheap, bytes: 1 << 20 }, &ids);
    assert_eq!(outcomes[0], Outcome::Holds(true));
    assert_eq!(outcomes[3], Outcome::Failed(Exceeded::Steps));
    let outcomes = evaluate(&queries, &names, MESSAGE, Budget { steps: 10_000, bytes: 0 }, &ids);
    assert_eq!(outcomes[4], Outcome::Failed(Exceeded::Bytes));
}

/// A thread of Python has as much stack; without optimisation a frame takes several times what it takes else.
#[test]
fn nested_expressions_and_deep_messages_do_not_exhaust_the_stack() {
    let thread = std::thread::Builder::new().stack_size(8 << 20).spawn(nest_deeply).unwrap();
    thread.join().unwrap();
}

fn nest_deeply() {
    let names = Names::new();
    // parent::*[parent::*[…]], as deeply as the decoder allows
    let mut words = number(1.0);
    for _ in 0..498 {
        words = path(CONTEXT, &[step(PARENT, ANY, &[words])]);
    }
    let mut queries = Queries::default();
    let deepest = path(DOCUMENT, &[step(DEEP_CHILD, ANY, &[words.clone()])]);
    let id = queries.add(&deepest, &[], false, &names).unwrap();
    let deeper = path(CONTEXT, &[step(PARENT, ANY, &[deepest])]);
    assert_eq!(queries.add(&deeper, &[], false, &names), Err("a program nested too deeply"));
    let limits = 900;
    let xml = "<a>".repeat(limits) + &"</a>".repeat(limits);
    assert_eq!(evaluate(&queries, &names, &xml, Budget::default(), &[id]), [Outcome::Holds(true)]);
    // a long chain of steps is no nesting
    let steps = vec![step(CHILD, NODE, &[]); 20_000];
    let id = queries.add(&path(DOCUMENT, &steps), &[], false, &names).unwrap();
    assert_eq!(evaluate(&queries, &names, &xml, Budget::default(), &[id]), [Outcome::Holds(false)]);
    queries.remove(id);
}

#[test]
fn malformed_programs_are_refused() {
    let names = Names::new();
    let mut queries = Queries::default();
    let valid = compare(0, call(COUNT, &[path(DOCUMENT, &[step(DEEP_CHILD, ANY, &[number(1.0)])])]), number(2.0));
    assert!(queries.add(&valid, &[], false, &names).is_ok());
    for end in 0..valid.len() {
        assert!(queries.add(&valid[..end], &[], false, &names).is_err(), "{end}");
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
        assert_eq!(queries.add(&words, &[], false, &names), Err(why));
    }
    assert_eq!(queries.add(&number(1.0), &[], true, &names), Err("only a node-set selects nodes"));
    assert_eq!(queries.ids().count(), 1);
}

/// Whatever the words, they are refused or can be evaluated.
#[test]
fn random_words_do_no_harm() {
    let mut names = Names::new();
    names.intern(false, b"", Some(b"a"));
    let mut state = 1u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut accepted = 0;
    for _ in 0..200_000 {
        let mut queries = Queries::default();
        // small words mostly, for large ones are refused at once
        let words: Vec<u32> = (0..1 + random(24))
            .map(|_| {
                let below = if random(20) == 0 { 1 << 31 } else { 14 };
                random(below) as u32
            })
            .collect();
        if let Ok(id) = queries.add(&words, &["a", "x"], false, &names) {
            accepted += 1;
            evaluate(&queries, &names, MESSAGE, Budget { steps: 1000, bytes: 1000 }, &[id]);
        }
    }
    assert!(accepted > 1000, "{accepted}");
}
