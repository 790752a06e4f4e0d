"""Traces: from files, columns, frames and generators, and back."""

import pickle

import nearhead
import pytest

MSR = "128166372003061629,web,0,Read,1048576,8192,100\n128166372013061629,web,0,Write,4096,4096,200\n"


@pytest.fixture
def msr(tmp_path):
    path = tmp_path / "web_0.csv"
    path.write_text(MSR * 50)
    return path


def test_a_file_is_read_in_its_own_form(msr, disk):
    trace = nearhead.Trace(msr)
    summary = trace.summary()
    assert (summary["format"], summary["requests"], summary["writes"]) == ("msr", 100, 50)
    assert trace.but(limit=10).summary()["requests"] == 10
    assert nearhead.Experiment(disk, "mlb", trace).run().workloads[0].requests == 100


def test_a_generator_is_read_to_its_end(disk):
    def requests():
        for place in range(50):
            yield nearhead.Request(place * 0.1, place * 8192, 8192)
        yield {"at_s": 6, "offset_bytes": 0, "len_bytes": 4096, "write": False}
        yield (7, 0, 0, True, True)

    trace = nearhead.Trace.from_requests(requests(), name="made-up")
    summary = trace.summary()
    assert (summary["requests"], summary["writes"], summary["flushes"]) == (52, 50, 1)
    result = nearhead.Experiment(disk, "mlb", trace).run()
    assert result.ack == "flush" and result.workloads[0].facts["trace"] == "made-up"


def test_requests_of_one_at_a_time_are_played_so(disk):
    trace = nearhead.Trace.from_columns(
        {"at_s": [0, 0, 0], "offset_bytes": [0, 1 << 30, 0], "len_bytes": [4096] * 3, "response_s": [0.01] * 3, "think_s": [1.0] * 3},
        tempo="closed",
    )
    result = nearhead.Experiment(disk, None, trace).run()
    assert 2.0 < result.simulated_s < 2.2
    assert result.workloads[0].facts["closed_loop"] is True


def test_columns_go_out_as_they_came_in(trace):
    np = pytest.importorskip("numpy")
    columns = trace.to_numpy()
    assert columns["write"].sum() == 200 and columns["write"].dtype == np.bool_
    assert columns["response_ns"].mask.all()
    again = nearhead.Trace.from_numpy(columns)
    for name, column in again.to_numpy().items():
        assert np.array_equal(np.ma.filled(column, 0), np.ma.filled(columns[name], 0)), name


def test_frames_and_tables_go_in_and_out(trace, disk):
    pytest.importorskip("numpy")
    digest = nearhead.Experiment(disk, "mlb", trace).run().digest
    for package, out in [("pyarrow", trace.to_arrow), ("pandas", trace.to_pandas), ("polars", trace.to_polars)]:
        pytest.importorskip(package)
        table = out()
        assert len(table) == 300
        assert nearhead.Experiment(disk, "mlb", nearhead.Trace.from_columns(table)).run().digest == digest, package


def test_parquet_is_written_and_read(trace, disk, tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "trace.parquet"
    trace.to_parquet(path)
    read = nearhead.Trace.from_parquet(path)
    digests = [nearhead.Experiment(disk, "mlb", one).run().digest for one in (trace, read)]
    assert digests[0] == digests[1] and read.name == str(path)
    (tmp_path / "no.parquet").write_text("PAR0")
    with pytest.raises(nearhead.Error, match="cannot read it"):
        nearhead.Trace.from_parquet(tmp_path / "no.parquet")


def test_a_trace_is_itself_again_after_a_pickle(msr, disk):
    odd = nearhead.Trace.from_columns(
        {"at_ns": [(1 << 62) + 12345, (1 << 62) + 1, 1 << 62], "offset_bytes": [512, 0, 1024], "len_bytes": [512] * 3, "fua": [True, False, True]},
        name="odd",
    )
    for trace in (odd, odd.but(time_scale=0.5, tempo="chained"), nearhead.Trace(msr, limit=30)):
        again = pickle.loads(pickle.dumps(trace))
        assert (again.name, again.summary(), again.tempo) == (trace.name, trace.summary(), trace.tempo)
        experiment = nearhead.Experiment(disk, "mlb", again)
        digest = nearhead.Experiment(disk, "mlb", trace).run().digest
        assert pickle.loads(pickle.dumps(experiment)).run().digest == experiment.run().digest == digest


def test_requests_past_the_end_go_where_somebody_says(disk):
    far = nearhead.Trace.from_columns({"at_s": [0, 1], "offset_bytes": [1 << 50, 0], "len_bytes": [4096, 4096]}, name="far")
    with pytest.raises(nearhead.Error, match="trace far, line 1"):
        nearhead.Experiment(disk, None, far).run()
    for fit in ("wrap", "scale"):
        assert nearhead.Experiment(disk, None, far.but(fit=fit)).run().workloads[0].requests == 2


def test_what_is_no_trace_is_refused_with_its_place(msr, tmp_path):
    columns = {"at_s": [0.0, 1.0], "offset_bytes": [0, 512], "len_bytes": [512, 512]}
    for wrong, expected in [
        (lambda: nearhead.Trace(), "expected the path of a file"),
        (lambda: nearhead.Trace(tmp_path / "none").summary(), "cannot read it"),
        (lambda: nearhead.Trace(msr, format="best").summary(), "expected one of msr"),
        (lambda: nearhead.Trace(msr, limit=-1).summary(), "found -1"),
        (lambda: nearhead.Trace(msr, time_scale="x").summary(), "found 'x'"),
        (lambda: nearhead.Experiment("st3146855fc", None, nearhead.Trace(msr, fit="cut")).run(), 'found "cut"'),
        (lambda: nearhead.Experiment("st3146855fc", None, nearhead.Trace(msr, tempo="rubato")).run(), 'found "rubato"'),
        (lambda: nearhead.Trace.from_columns({**columns, "color": [1, 2]}), "found 'color'"),
        (lambda: nearhead.Trace.from_columns({"at_s": [1], "offset_bytes": [1]}), "expected a column len_bytes"),
        (lambda: nearhead.Trace.from_columns({**columns, "at_ns": [1, 2]}), "found both"),
        (lambda: nearhead.Trace.from_columns({**columns, "at_s": [0.0]}), "same length"),
        (lambda: nearhead.Trace.from_columns({**columns, "write": [True]}), "expected 2 values"),
        (lambda: nearhead.Trace.from_columns({**columns, "offset_bytes": [0, -1]}), "request 2"),
        (lambda: nearhead.Trace.from_columns({**columns, "offset_bytes": [0, 1.5]}), "found 1.5"),
        (lambda: nearhead.Trace.from_columns({**columns, "len_bytes": [1, 1 << 40]}), "request 2"),
        (lambda: nearhead.Trace.from_columns({**columns, "at_s": [0.0, float("nan")]}), "found nan"),
        (lambda: nearhead.Trace.from_columns({**columns, "len_bytes": [512, None]}), "found None"),
        (lambda: nearhead.Trace.from_columns({**columns, "write": [True, None]}), "found None"),
        (lambda: nearhead.Trace.from_columns(3), "found int"),
        (lambda: nearhead.Trace.from_requests([(1, 2)]), "request 1"),
        (lambda: nearhead.Trace.from_requests([{"when": 1}]), "request 1"),
    ]:
        with pytest.raises(nearhead.Error) as raised:
            wrong()
        assert expected in str(raised.value), raised.value


def test_arrays_with_negative_numbers_are_refused():
    np = pytest.importorskip("numpy")
    columns = {"at_s": np.array([0.0, 1.0]), "offset_bytes": np.array([0, -512]), "len_bytes": np.array([512, 512])}
    with pytest.raises(nearhead.Error, match="request 2"):
        nearhead.Trace.from_columns(columns)
    with pytest.raises(nearhead.Error, match="found 0.5"):
        nearhead.Trace.from_columns({**columns, "offset_bytes": np.array([0, 0.5])})
    with pytest.raises(nearhead.Error, match="one dimension"):
        nearhead.Trace.from_columns({**columns, "offset_bytes": np.zeros((2, 2))})


def test_what_is_missing_in_a_frame_is_refused_but_for_times_that_nobody_measured():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"at_s": [0.0, 1.0], "offset_bytes": [0, 512], "len_bytes": [512, 512], "write": [True, False]})
    for column in frame.columns:
        with pytest.raises(nearhead.Error, match=f"column {column}, request 2"):
            nearhead.Trace.from_pandas(frame.assign(**{column: frame[column].astype(object).where([True, False]).convert_dtypes()}))
    measured = frame.assign(response_s=[0.01, float("nan")], think_s=[0.0, None])
    assert nearhead.Trace.from_pandas(measured).to_pandas()["response_ns"].isna().tolist() == [False, True]
