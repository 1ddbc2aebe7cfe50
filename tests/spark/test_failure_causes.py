"""The cause of a failure, out of reports as PySpark 4.3 gives them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pipeline_files import Site
from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from twigcast.errors import TwigcastError
from twigcast.spark.failures import LONGEST, cause, damage_of
from twigcast.spark.pipeline import Run

QUERY = """
=== Streaming Query ===
Identifier: in 1a2b3c4d [id = 5f0c, runId = 9d1e]
Current Committed Offsets: {}
Current Available Offsets: {}

Current State: INITIALIZING
Thread State: RUNNABLE
"""
PLAN = """
Logical Plan:
WriteToMicroBatchDataSource ForeachBatchSink, 5f0c, Append
+- MapInArrow load(message#1, time#2)#7, [message#1]
   +- StreamingDataSourceV2Relation [key#1], org.apache.spark.sql.kafka010.KafkaSourceProvider$KafkaScan@1
ReplicatedError: a node of the plan
"""
STREAM = "[STREAM_FAILED] Query [id = 5f0c, runId = 9d1e] terminated with exception: "
LOST = (
    "Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times, most recent failure: "
    "Lost task 0.0 in stage 3.0 (TID 3) (127.0.0.1 executor driver): "
)
WORKER = """org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/env/lib/python3.11/site-packages/pyspark/worker.py", line 1881, in process
    serializer.dump_stream(out_iter, outfile)
  File "/env/lib/python3.11/site-packages/twigcast/spark/stages/live.py", line 12, in held_at
    raise ValueError("the base is damaged")
ValueError: the base is damaged

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:581)
\tat java.base/java.lang.Thread.run(Thread.java:840)

Driver stacktrace:"""
DAMAGED = "/a state/log/in/batch-00000001/0000.seen.parquet is damaged: Corrupt page 1: 5"
REPORTS = {
    "kafka does not answer": (
        STREAM + "Timed out waiting for a node assignment. Call: describeTopics SQLSTATE: XXKST" + QUERY + PLAN,
        "Timed out waiting for a node assignment. Call: describeTopics",
    ),
    "kafka, with the way there": (
        STREAM
        + "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment. SQLSTATE: XXKST\n"
        + "JVM stacktrace:\n"
        + "java.util.concurrent.ExecutionException: org.apache.kafka.common.errors.TimeoutException: Timed out\n"
        + "\tat java.base/java.util.concurrent.CompletableFuture.reportGet(CompletableFuture.java:396)\n"
        + "Caused by: org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment."
        + QUERY,
        "TimeoutException: Timed out waiting for a node assignment.",
    ),
    "no topic": (
        STREAM
        + "java.util.concurrent.ExecutionException: org.apache.kafka.common.errors.UnknownTopicOrPartitionException: "
        + "This server does not host this topic-partition. SQLSTATE: XXKST"
        + QUERY,
        "UnknownTopicOrPartitionException: This server does not host this topic-partition.",
    ),
    "a worker": (STREAM + LOST + WORKER + " SQLSTATE: XXKST" + QUERY + PLAN, "ValueError: the base is damaged"),
    "a worker, told by the driver": (
        STREAM
        + "An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):\n"
        + '  File "/env/lib/python3.11/site-packages/py4j/clientserver.py", line 644, in _call_proxy\n'
        + "    return_value = getattr(self.pool[obj_id], method)(*params)\n"
        + "                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        + "pyspark.errors.exceptions.captured.PythonException: \n"
        + "  An exception was thrown from the Python worker. Please see the stack trace below.\n"
        + "Traceback (most recent call last):\n"
        + '  File "/env/lib/python3.11/site-packages/twigcast/spark/stages/archive.py", line 80, in part\n'
        + "OSError: [Errno 28] No space left on device\n\n"
        + "JVM stacktrace:\n"
        + "org.apache.spark.SparkException: "
        + LOST
        + WORKER.replace("ValueError: the base is damaged", "OSError: [Errno 28] No space left on device")
        + QUERY
        + PLAN,
        "OSError: [Errno 28] No space left on device",
    ),
    "an error of ours": (
        STREAM
        + "An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):\n"
        + '  File "/env/lib/python3.11/site-packages/twigcast/spark/pipeline.py", line 322, in batch\n'
        + "twigcast.errors.OptionError: state-damaged: a part of the state is missing\nhint: restore it\n"
        + QUERY,
        "state-damaged: a part of the state is missing",
    ),
    "the state store": (
        STREAM
        + "[STATE_STORE_COMMIT_VALIDATION_FAILED] State store commit validation failed for batch 3. SQLSTATE: XXKST"
        + QUERY
        + PLAN,
        "[STATE_STORE_COMMIT_VALIDATION_FAILED] State store commit validation failed for batch 3.",
    ),
    "the state store, in a task": (
        STREAM
        + LOST
        + "org.apache.spark.SparkException: [CANNOT_LOAD_STATE_STORE.CANNOT_READ_CHECKPOINT] An error occurred during "
        + "loading state. Cannot read RocksDB checkpoint metadata. SQLSTATE: 58030\n"
        + "\tat org.apache.spark.sql.errors.QueryExecutionErrors$.x(QueryExecutionErrors.scala:1)\n"
        + QUERY,
        "[CANNOT_LOAD_STATE_STORE.CANNOT_READ_CHECKPOINT] An error occurred during loading state. Cannot read RocksDB "
        "checkpoint metadata.",
    ),
    "a file is gone": (
        STREAM
        + LOST
        + "org.apache.spark.SparkException: [FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file "
        + "file:///in/1.xml. File does not exist. SQLSTATE: KD001\n"
        + "\tat org.apache.spark.sql.errors.QueryExecutionErrors$.x(QueryExecutionErrors.scala:1)\n"
        + "Caused by: java.io.FileNotFoundException: File file:/in/1.xml does not exist\n"
        + "\tat org.apache.hadoop.fs.RawLocalFileSystem.getFileStatus(RawLocalFileSystem.java:1)\n"
        + QUERY,
        "FileNotFoundException: File file:/in/1.xml does not exist",
    ),
    "memory": (
        STREAM + LOST + "java.lang.OutOfMemoryError: Java heap space" + QUERY,
        "OutOfMemoryError: Java heap space",
    ),
    "analysis": (
        "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `xml` cannot be resolved. SQLSTATE: 42703; line 1;\n"
        "'Project ['xml]\n+- Relation [value#0] text\n",
        "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `xml` cannot be resolved.",
    ),
    "no message": ('Traceback (most recent call last):\n  File "a.py", line 1\nAssertionError\n', "AssertionError"),
    "nothing": ("", "the query failed"),
    "only a plan": (QUERY + PLAN, "the query failed"),
}


@pytest.mark.parametrize("name", REPORTS)
def test_cause(name: str) -> None:
    report, expected = REPORTS[name]
    assert cause(report) == expected


def test_a_cause_is_bounded() -> None:
    assert len(cause(STREAM + "x" * 10_000)) == LONGEST


JAVA = (
    "An error occurred while calling o41.collectToPython.\n: org.apache.spark.SparkException: " + LOST + WORKER + "\n"
    "\tat org.apache.spark.scheduler.DAGScheduler.failJobAndIndependentStages(DAGScheduler.scala:3122)\n"
)


class Silent(Py4JError):  # type: ignore[misc]
    """An error of Java whose report cannot be asked for: the JVM has ended."""

    def __str__(self) -> str:
        raise Py4JNetworkError("Answer from Java side is empty")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (Py4JError(JAVA), "Spark has ended: ValueError: the base is damaged"),
        (Py4JNetworkError("Answer from Java side is empty"), "Spark has ended: Answer from Java side is empty"),
        (Silent(), "Spark has ended: Silent"),
    ],
)
def test_spark_that_ends_is_reported_in_one_line(tmp_path: Path, error: Py4JError, text: str) -> None:
    class Query:
        def awaitTermination(self, timeout: float) -> bool:
            raise error

    run = Run(Site(tmp_path).settings, once=True)
    run.runner = SimpleNamespace(check=lambda: None)  # type: ignore[assignment]
    with pytest.raises(TwigcastError) as caught:
        run._wait([Query()])  # type: ignore[list-item]
    assert (caught.value.code, caught.value.text) == ("spark-died", text)


def no_space(frame: DataFrame, batch: int) -> None:
    raise OSError(28, "No space left on device")


def test_reports_of_spark_itself(spark: SparkSession, tmp_path: Path) -> None:
    # Inside, so that it is pickled by value: workers do not find this module.
    def failing(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        raise ValueError("the worker's reason")

    inbox = tmp_path / "in"
    inbox.mkdir()
    (inbox / "a.txt").write_text("a")
    gone = spark.read.text(str(inbox))
    read = spark.readStream.text(str(inbox))
    queries = {
        "ValueError: the worker's reason": read.mapInArrow(failing, "value string").writeStream.format("noop"),
        "OSError: [Errno 28] No space left on device": read.writeStream.foreachBatch(no_space),
    }
    for expected, writer in queries.items():
        query = writer.option("checkpointLocation", str(tmp_path / expected[:5])).trigger(availableNow=True).start()
        with pytest.raises(PySparkException) as caught:
            query.awaitTermination()
        assert cause(str(caught.value)) == expected, str(caught.value)
    (inbox / "a.txt").unlink()
    with pytest.raises((PySparkException, Py4JError)) as caught:
        gone.collect()
    assert "a.txt" in (text := cause(str(caught.value))) and "exist" in text, str(caught.value)
    with pytest.raises(PySparkException) as caught:
        spark.range(1).select("absent")
    assert cause(str(caught.value)).startswith("[UNRESOLVED_COLUMN"), str(caught.value)


def test_a_worker_finds_the_state_folder_damaged() -> None:
    raised = WORKER.replace(
        "\nValueError: the base is damaged",
        f"\ntwigcast.errors.StateDamaged: state-damaged: {DAMAGED}\nhint: restore the state folder",
    )
    found = damage_of(PySparkException(STREAM + LOST + raised + QUERY + PLAN))
    assert found is not None and found.text == DAMAGED and found.hint
    assert damage_of(PySparkException(STREAM + LOST + WORKER + QUERY + PLAN)) is None
