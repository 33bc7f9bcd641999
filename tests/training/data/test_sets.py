"""Every data set is read from files of its official form."""

from pathlib import Path

import numpy as np
import pytest

from fedconformal.errors import InputError
from fedconformal.training.data import SPLITS, Dataset, download, load, names
from fedconformal.training.data.dataset import Rows
from fedconformal.training.data.sets import heart_disease
from fedconformal.training.data.sets.cifar import CIFAR100_CLASSES as CLASSES
from fedconformal.training.data.sets.cifar import CIFAR100_GROUPS as GROUPS
from fedconformal.training.data.sets.fitzpatrick17k import split as split_photographs
from tests.training.data import made

PAPER_GROUPS = {
    **{key: [[j] for j in range(10)] for key in ("fashionmnist", "digits")},
    "cifar10": [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]],
    "dermamnist": [[0, 1], [2, 3], [4, 5, 6]],
    "pathmnist": [[0, 1, 2], [3, 4, 5], [6, 7, 8]],
    **{key: [[0, 1], [2, 3], [4, 5], [6, 7]] for key in ("tissuemnist", "bloodmnist")},
}


def check(dataset: Dataset, *, pixel: int = 1) -> None:
    """The pixels of the made images are their labels, so a mixed-up row or channel shows."""
    for split in SPLITS:
        rows = dataset.rows(split)
        assert rows.x.dtype == np.uint8
        assert rows.x.flags.c_contiguous
        assert np.array_equal(rows.x[:, 0, 3, 5], rows.y * pixel)


@pytest.mark.parametrize(
    ("name", "classes", "shape"),
    [
        ("bloodmnist", 8, (28, 28, 3)),
        ("dermamnist", 7, (28, 28, 3)),
        ("pathmnist", 9, (28, 28, 3)),
        ("tissuemnist", 8, (28, 28)),
        ("fashionmnist", 10, (28, 28)),
        ("cifar10", 10, (32, 32, 3)),
        ("cifar100", 100, (32, 32, 3)),
    ],
)
def test_images_in_an_npz_file(place: Path, name: str, classes: int, shape: tuple[int, ...]) -> None:
    made.write_npz(place / f"{name}.npz", classes=classes, shape=shape, source="here")
    dataset = load(name)
    check(dataset)
    assert dataset.shape == (1 if len(shape) == 2 else 3, *shape[:2])
    assert dataset.num_classes == classes
    assert set(dataset.column("test", "source")) == {"here"}
    assert (len(dataset.train), len(dataset.val), len(dataset.test)) == (2 * classes, classes, classes)


@pytest.mark.parametrize("name", PAPER_GROUPS)
def test_the_papers_class_groups(place: Path, name: str) -> None:
    if name != "digits":
        made.write_npz(place / f"{name}.npz", classes=sum(map(len, PAPER_GROUPS[name])))
    assert load(name).groups == tuple(map(tuple, PAPER_GROUPS[name]))


def test_the_papers_clients_on_cifar100() -> None:
    assert sorted(j for group in GROUPS for j in group) == list(range(100))
    assert {len(group) for group in GROUPS} == {5}
    assert [CLASSES[j] for j in GROUPS[0]] == ["beaver", "dolphin", "otter", "seal", "whale"]
    assert [CLASSES[j] for j in GROUPS[19]] == ["lawn_mower", "rocket", "streetcar", "tank", "tractor"]


def test_fashionmnist_from_the_official_files(place: Path) -> None:
    made.write_fashion(place / "fashion-mnist")
    dataset = load("fashionmnist")
    check(dataset)
    assert (len(dataset.train), len(dataset.val), len(dataset.test)) == (20, 10, 10)
    assert sorted([*dataset.val.y, *dataset.test.y]) == sorted(list(range(10)) * 2)  # halves of the test rows


def test_fashionmnist_from_debian_comes_after_the_users_own(place: Path) -> None:
    made.write_fashion(download.SYSTEM / "fashion-mnist", rows=40)
    assert len(load("fashionmnist").train) == 40
    made.write_fashion(place / "fashion-mnist")
    assert len(load("fashionmnist").train) == 20


def test_cifar10_from_the_official_archive(place: Path) -> None:
    labels = list(range(10))
    batches = [f"data_batch_{i}.bin" for i in range(1, 6)]
    content = {f"cifar-10-batches-bin/{name}": made.cifar_records(labels, label_bytes=1) for name in batches}
    content["cifar-10-batches-bin/test_batch.bin"] = made.cifar_records(labels * 2, label_bytes=1)
    content["cifar-10-batches-bin/readme.html"] = b"not read"
    made.write_tar(place / "cifar-10-binary.tar.gz", content)
    dataset = load("cifar10")
    check(dataset)
    assert not dataset.train.x[:, 1:].any()  # red comes first
    assert (len(dataset.train), len(dataset.val), len(dataset.test)) == (50, 10, 10)


def test_cifar100_calibrates_with_the_first_tenth_of_the_test_rows(place: Path) -> None:
    train, test = list(range(100)), [*range(10), *range(90)]
    content = {
        "train.bin": made.cifar_records(train, label_bytes=2),
        "test.bin": made.cifar_records(test, label_bytes=2),
    }
    made.write_tar(place / "cifar-100-binary.tar.gz", {f"cifar-100-binary/{k}": v for k, v in content.items()})
    dataset = load("cifar100")
    check(dataset)
    assert dataset.val.y.tolist() == list(range(10))
    assert dataset.test.y.tolist() == list(range(90))


def test_heart_disease_from_the_official_files(place: Path) -> None:
    made.write_heart(place / "heart_disease")
    dataset = load("heart_disease")
    assert dataset.classes == ("absent", "present")
    assert dataset.shape == (29,)
    for split, patients in zip(SPLITS, (4, 2, 2), strict=True):  # of the 8 of each hospital
        where, counts = np.unique(dataset.column(split, "hospital"), return_counts=True)
        assert dict(zip(where.tolist(), counts, strict=True)) == dict.fromkeys(heart_disease.HOSPITALS, patients)
    everybody = np.concatenate([dataset.rows(split).y for split in SPLITS])
    assert sorted(everybody) == [0] * 12 + [1] * 20  # grades 0 1 2 0 1 2 0 1


def test_heart_disease_in_one_file(place: Path) -> None:
    lines = [made.HEART_HEADER, *[f"va,{made.PATIENT},0"] * 4, *[f"cleveland,{made.PATIENT},4"] * 4]
    (place / "heart_disease.csv").write_text("\n".join(lines), "utf-8")
    dataset = load("heart_disease")
    assert (len(dataset.train), len(dataset.val), len(dataset.test)) == (4, 2, 2)
    assert set(dataset.column("train", "hospital")[dataset.train.y == 1]) == {"cleveland"}


def test_what_a_hospital_did_not_measure_is_marked() -> None:
    usual = [55, 1, 1, 120, 200, 0, 0, 150, 0, 0, 1, 0, 3]
    missing = [55, 1, 1, np.nan, 0, np.nan, np.nan, 0, np.nan, np.nan, np.nan, np.nan, np.nan]
    full, empty = heart_disease.as_features(np.array([usual, missing], np.float64))
    numbers, marks = slice(0, 9), slice(9, 16)
    assert np.array_equal(full[numbers], empty[numbers])  # what is missing counts as usual
    assert not full[marks].any()
    assert empty[marks].all()
    assert full[16:].sum() == 4  # one code each of four
    assert empty[16:].sum() == 1  # only the kind of pain is known


def test_photographs_by_skin_type_and_disease(place: Path, caplog: pytest.LogCaptureFixture) -> None:
    image = pytest.importorskip("PIL.Image", reason="photographs need Pillow")
    records = made.fitzpatrick_records(42)
    (place / "fitzpatrick17k.csv").write_text("\n".join([made.FITZPATRICK_HEADER, *records]), "utf-8")
    (place / "fitzpatrick17k").mkdir()
    for i, record in enumerate(records[:-1]):  # the last photograph is missing
        wide = image.new("RGB", (300 + i, 200), (i % 3 * 100, 0, 0))
        wide.save(place / "fitzpatrick17k" / f"{record.partition(',')[0]}.png")
    seen: list[tuple[int, int, str]] = []
    dataset = load("fitzpatrick17k", progress=lambda *step: seen.append(step))
    check(dataset, pixel=100)
    assert seen[-1] == (41, 41, "photographs")
    assert "1 of 42 photographs are missing" in caplog.text
    assert dataset.classes == ("acne", "nevus", "wart")
    assert dataset.groups == ((1, 2), (0,))  # benign, non-neoplastic
    assert len(dataset.train) + len(dataset.val) + len(dataset.test) == 41

    with caplog.at_level("INFO"):
        known = dataset.having("skin_type")
    assert "5 rows without a value in 'skin_type' are left out" in caplog.text  # the sixth has no photograph
    assert set(known.column("train", "skin_type")) <= {"I", "II", "III", "IV", "V", "VI"}

    assert set(dataset.column("test", "skin_half_step")) == {"1", "2", "3", "4", "5", "6"}
    assert len(dataset.test) == len(dataset.val) == 6 + 6  # a third of the six or five photographs of each type is two
    assert dataset.train.x.shape[1:] == (3, 224, 224)


def test_the_split_of_photographs_is_that_of_the_authors() -> None:
    pandas = pytest.importorskip("pandas", reason="their notebook draws with pandas")
    steps = np.random.default_rng(1).choice(["", "1", "1.5", "2"], 1500)
    rows = Rows(
        x=np.arange(1500, dtype=np.float32)[:, None], y=np.zeros(1500, np.int64), columns={"skin_half_step": steps}
    )
    found = {name: set(part.x[:, 0].astype(int)) for name, part in split_photographs(rows).items()}
    frame = pandas.DataFrame({"step": steps})
    wanted = {}
    for name in ("test", "val"):
        drawn = [frame[frame.step == step].sample(n=100, random_state=0) for step in ("1", "1.5", "2")]
        wanted[name] = {row for one in drawn for row in one.index}
        frame = frame.drop(index=list(wanted[name]))
    assert found == {"train": set(frame.index), **wanted}


@pytest.mark.parametrize("name", [name for name in names() if name != "digits"])
def test_absent_data_is_one_line_that_says_where_to_put_it(place: Path, name: str) -> None:
    for may_download in (False, True):
        with pytest.raises(InputError) as caught:
            load(name, download=may_download)
        text = str(caught.value)
        assert "\n" not in text
        assert "put it in " in text
        assert "https://" in text
        if may_download and "fitzpatrick" not in name:
            assert "no network in tests" in text
