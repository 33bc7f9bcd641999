"""NVFlare's proof of concept with three sites: provisioned, started, and given a job by the admin's API.

It runs in a process of its own, in the folder that it is given, with the job's module, digits.py, in it. Everything
listens on loopback.
"""

import importlib
import json
import os
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from nvflare.collab import CollabRecipe
from nvflare.fuel.flare_api.flare_api import Session, new_secure_session

from scripts.superlink import free_port, program, running, wait_for_port

ADMIN = "admin@nvidia.com"
SERVER = "localhost"
"""A server of this name listens on loopback only."""
SITES = ["site-0", "site-1", "site-2"]
PATIENCE = 120
BUILDERS = {
    "workspace.WorkspaceBuilder": {"template_file": ["master_template.yml"]},
    "static_file.StaticFileBuilder": {"config_folder": "config"},
    "cert.CertBuilder": {},
    "signature.SignatureBuilder": {},
}


def provision(folder: Path, port: int) -> Path:
    """Make the startup kits, with certificates of their own, and return their folder."""
    participants: list[dict[str, Any]] = [
        {"name": SERVER, "type": "server", "org": "trial", "fed_learn_port": port, "default_host": "localhost"},
        {"name": ADMIN, "type": "admin", "org": "trial", "role": "project_admin"},
        *({"name": site, "type": "client", "org": "trial"} for site in SITES),
    ]
    builders = [{"path": f"nvflare.lighter.impl.{name}", "args": args} for name, args in BUILDERS.items()]
    project = {"api_version": 3, "name": "trial", "participants": participants, "builders": builders}
    (folder / "project.yml").write_text(json.dumps(project))  # JSON is YAML
    os.environ |= {"HOME": str(folder), "NVFLARE_POC_WORKSPACE": str(folder / "poc")}
    subprocess.run([program("nvflare"), "poc", "prepare", "-i", str(folder / "project.yml"), "--force"], check=True)
    return folder / "poc" / "trial" / "prod_00"


def wait_for_sites(session: Session, count: int) -> None:
    end = time.monotonic() + PATIENCE
    while len(session.get_system_info().client_info) < count:
        assert time.monotonic() < end, f"{count} sites are not connected after {PATIENCE} s"
        time.sleep(0.5)


def main(folder: Path) -> None:
    sys.path.insert(0, str(folder))
    digits = importlib.import_module("digits")
    recipe = CollabRecipe("digits", server=digits.Server(), client=digits.Site(), sync_task_timeout=300, min_clients=3)
    recipe.export(str(folder / "jobs"))
    port = free_port()
    kits = provision(folder, port)
    with ExitStack() as stack:

        def start(name: str) -> subprocess.Popen[bytes]:
            script = kits / name / "startup" / "sub_start.sh"
            return stack.enter_context(running(["bash", str(script), "--once"], kits / name, folder / f"{name}.log"))

        wait_for_port(port, start(SERVER), folder / f"{SERVER}.log", PATIENCE)
        for site in SITES:
            start(site)
        session = new_secure_session(ADMIN, str(kits / ADMIN), timeout=PATIENCE)
        wait_for_sites(session, len(SITES))
        job = session.submit_job(str(folder / "jobs" / "digits"))
        session.monitor_job(job, timeout=PATIENCE)
        status = session.get_job_meta(job)["status"]
        found = {"status": status, "result": str(session.download_job_result(job))}
        (folder / "found.json").write_text(json.dumps(found))
        session.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
