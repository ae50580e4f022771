"""Downloads that are checked and whole, and models of a local folder."""

import hashlib

import pytest

import flambeau
from flambeau import hub


@pytest.fixture
def weights(tmp_path):
    path = tmp_path / "net.pth"
    flambeau.save({"w": flambeau.arange(3.0)}, path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    named = tmp_path / f"net-{digest[:8]}.pth"
    path.rename(named)
    return named.as_uri(), digest


def test_downloads(weights, tmp_path):
    url, digest = weights
    target = tmp_path / "copy.pth"
    hub.download_url_to_file(url, str(target), hash_prefix=digest[:8], progress=False)
    assert flambeau.load(target)["w"].tolist() == [0, 1, 2]
    with pytest.raises(RuntimeError, match="does not begin with"):
        hub.download_url_to_file(url, str(tmp_path / "bad.pth"), hash_prefix="00000000", progress=False)
    assert not (tmp_path / "bad.pth").exists() and not list(tmp_path.glob(".*"))


def test_state_dicts(weights, tmp_path):
    url, _ = weights
    before = hub._folder[0]
    try:
        hub.set_dir(tmp_path / "hub")
        assert hub.get_dir() == str(tmp_path / "hub")
        for _ in range(2):  # the second time from the file
            assert hub.load_state_dict_from_url(url, progress=False, check_hash=True)["w"].tolist() == [0, 1, 2]
        assert len(list((tmp_path / "hub" / "checkpoints").iterdir())) == 1
    finally:
        hub._folder[0] = before


def test_local_models(tmp_path):
    (tmp_path / "hubconf.py").write_text(
        "dependencies = ['flambeau']\ndef net(n=2):\n    'A net.'\n    import flambeau\n"
        "    return flambeau.nn.Linear(n, n)\ndef _helper():\n    pass\n")
    assert hub.list(tmp_path) == ["net"] and hub.help(tmp_path, "net") == "A net."
    assert hub.load(tmp_path, "net", n=3, source="local").weight.shape == (3, 3)
    with pytest.raises(RuntimeError, match="callable"):
        hub.load(tmp_path, "none", source="local")
    with pytest.raises(NotImplementedError, match="local"):
        hub.load("owner/repo", "net")
    with pytest.raises(ValueError, match="source must be"):
        hub.load(tmp_path, "net", source="else")
