"""How the processes of a service start."""

import pytest

from eupg.errors import ParameterError
from eupg.service import processes


def test_a_demonstration_listens_on_this_machine_alone_however_it_is_asked_for(tmp_path, monkeypatch):
    started: list[str] = []
    monkeypatch.setattr("uvicorn.run", lambda _, **options: started.append(options["host"]))
    monkeypatch.setattr("eupg.service.logs.configure", lambda: None)
    with pytest.raises(ParameterError, match="this machine alone"):
        processes.serve(tmp_path / "new", host="0.0.0.0", port=8765, demo=True)
    assert not (tmp_path / "new").exists()
    (tmp_path / "service.toml").write_text("demo = true\n")
    with pytest.raises(ParameterError, match=r"service\.toml"):
        processes.serve(tmp_path, host="0.0.0.0", port=8765)
    assert started == []
    processes.serve(tmp_path, host="127.0.0.1", port=8765)
    (tmp_path / "service.toml").write_text("")
    processes.serve(tmp_path, host="0.0.0.0", port=8765)
    assert started == ["127.0.0.1", "0.0.0.0"]
