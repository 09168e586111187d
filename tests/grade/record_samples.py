"""Records to build gradebooks, feedback and reports from: one of every category, and many."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from kernelbook.grade.record import Category, Record, TestResult, key_of

START = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)
TESTS = {
    "cuda/first-kernels": {
        "add_ten": ("one element a thread", "more threads than elements"),
        "add_ten_2d": ("square images", "images that are not a multiple of the block"),
        "grid_stride": ("fewer threads than elements",),
    },
    "cuda/reduce": {
        "block_sum": ("one full block", "lengths that are not a multiple of the block"),
        "warp_sum": ("a shuffle in every lane", "a last warp that is not full"),
        "one_pass_sum": ("many blocks", "empty input"),
    },
}
MESSAGE = "The last block reads past the end of x. Compare the index with the length first."


def make_record(learner: str = "learner-01", lab: str = "cuda/reduce", **changes: object) -> Record:
    """Return a record with full marks, but for the fields in ``changes``."""
    endings = changes.pop("endings", ())
    minutes = changes.pop("minutes", 0)
    submitted = START + timedelta(minutes=minutes)
    sha = key_of(learner, lab, str(submitted), str(endings), "", "") * 2
    record = Record(
        key=key_of(sha, lab, "3f2a9c01d4e7", "0.1.0", "seed-7", str(changes.get("device", "sim"))),
        learner=learner,
        lab=lab,
        lab_version="3f2a9c01d4e7",
        path=f"class/{learner}/{lab.rpartition('/')[2]}.ipynb",
        submission_sha256=sha,
        submitted_at=submitted.isoformat(),
        graded_at=(submitted + timedelta(hours=5)).isoformat(),
        grader_version="0.1.0",
        seed_id="seed-7",
        device="sim",
        isolation=("namespaces", "no network", "read-only system", "memory limit"),
        matched=dict.fromkeys(TESTS.get(lab, ()), "id"),
        notes=(),
        reason="",
        results=make_results(lab, endings),
    )
    return replace(record, **changes)


def make_results(lab: str, endings: tuple[Category, ...] = ()) -> tuple[TestResult, ...]:
    """Return the lab's tests; those past the end of ``endings`` pass."""
    results = []
    for exercise, tests in TESTS.get(lab, {}).items():
        for test in tests:
            i = len(results)
            category = endings[i] if i < len(endings) else Category.PASS
            passed = category is Category.PASS
            message = "" if passed else MESSAGE
            results.append(TestResult(exercise, test, category, 2 * passed, 2, message, 0.25))
    return tuple(results)


def make_class() -> list[Record]:
    """Return about twenty records with every category, status and way of going wrong."""
    c = Category
    reduce_, first = "cuda/reduce", "cuda/first-kernels"
    broken = tuple(
        replace(r, category=c.MISSING, points=0, message="") for r in make_results(reduce_)
    )
    return [
        make_record("learner-01", first),
        make_record("learner-01", reduce_),
        make_record("learner-02", first, endings=(c.PASS, c.WRONG, c.PASS, c.WRONG)),
        make_record("learner-02", reduce_, endings=(c.WRONG, c.WRONG, c.ERROR), minutes=3),
        make_record("learner-02", reduce_, endings=(c.PASS, c.WRONG, c.ERROR), minutes=90),
        make_record(
            "learner-03",
            reduce_,
            endings=(c.PASS, c.WRONG, c.ERROR, c.TIMEOUT, c.DIED, c.OUT_OF_MEMORY),
            notes=("Cell 7 appears twice; the last copy counts.",),
            matched={"block_sum": "id", "warp_sum": "name", "one_pass_sum": "marker"},
        ),
        make_record("learner-03", first, endings=(c.OUTPUT_LIMIT, c.NOT_A_KERNEL, c.MISSING)),
        make_record("learner-04", reduce_, endings=(c.NOT_ATTEMPTED,) * 6),
        make_record("learner-04", first, endings=(c.PASS, c.PASS, *(c.NOT_ATTEMPTED,) * 3)),
        make_record("learner-05", reduce_, endings=(c.PASS, c.PASS, c.INFRASTRUCTURE, c.WRONG)),
        make_record("学习者-06", reduce_, endings=(c.PASS, c.WRONG), device="gpu"),
        make_record("学习者-06", first, endings=(c.PASS, c.PASS, c.WRONG, c.WRONG)),
        make_record(
            "learner-07",
            reduce_,
            reason="The file is not JSON: it ends in the middle of line 212. Save it again.",
            results=broken,
            matched={},
            lab_version="",
        ),
        make_record("learner-08", first, endings=(c.PASS, c.NOT_A_KERNEL, c.WRONG, c.WRONG)),
        make_record("learner-08", reduce_, endings=(c.PASS, c.PASS, c.PASS, c.WRONG)),
        make_record("learner-09", reduce_, endings=(c.TIMEOUT, c.TIMEOUT), isolation=()),
        make_record(
            "<script>alert(1)</script> with a rather long name/and a slash",
            first,
            endings=(c.PASS,),
        ),
    ]


def make_many(learners: int) -> list[Record]:
    """Return two records a learner with categories that vary without chance."""
    kinds = list(Category)
    records = []
    for i in range(learners):
        for j, lab in enumerate(TESTS):
            endings = tuple(
                kinds[(i * 7 + k * 5 + j) % 11] if (i + k) % 3 else Category.PASS for k in range(6)
            )
            records.append(make_record(f"learner-{i:04}", lab, endings=endings, minutes=i))
    return records
