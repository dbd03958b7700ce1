"""Runs workflows on this machine with act, as GitHub would, on a repository of recipes as users have one.

The steps' own commands run for real. Actions of others are replaced by stand-ins: a checkout is what act lays out
already, with the files that tests share and with this program where a second checkout is asked for; artifacts are
folders.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..project import REPOSITORY, SAFETY_SECONDS, Ended, Project

BIN = Path(sys.executable).parent
WORKFLOWS = REPOSITORY / ".github/workflows"
WHO = {
    "GIT_AUTHOR_NAME": "someone", "GIT_AUTHOR_EMAIL": "someone@example.org", "GIT_COMMITTER_NAME": "someone",
    "GIT_COMMITTER_EMAIL": "someone@example.org", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull,
}  # fmt: skip
INPUTS = {
    "checkout": ("path", "repository", "ref", "fetch-depth", "persist-credentials"),
    "upload-artifact": ("name", "path", "if-no-files-found"),
    "download-artifact": ("name", "pattern", "path", "merge-multiple"),
    "cosign-installer": ("install-dir", "use-sudo"),
}
SCRIPTS = {
    "checkout": """
if [ -n "$I_PATH" ]; then mkdir -p "${I_PATH%/*}"; ln -s @program@ "$I_PATH"; exit; fi
if [ -n "$I_REF" ]; then git clone --quiet --branch "$I_REF" @origin@ .; fi
mkdir -p .rocm-images
for folder in @shared@; do ln -s "$folder" .rocm-images/; done
""",
    "upload-artifact": """
if [ ! -e "$I_PATH" ]; then [ "$I_IF_NO_FILES_FOUND" != error ]; exit; fi
mkdir -p @artifacts@/"$I_NAME"
if [ -d "$I_PATH" ]; then cp -r "$I_PATH/." @artifacts@/"$I_NAME"; else cp "$I_PATH" @artifacts@/"$I_NAME"; fi
""",
    "download-artifact": """
mkdir -p "$I_PATH"
for folder in @artifacts@/${I_PATTERN:-$I_NAME}; do [ ! -d "$folder" ] || cp -r "$folder/." "$I_PATH"; done
""",
    "cosign-installer": """
mkdir -p @artifacts@
echo "into $I_INSTALL_DIR, with sudo: $I_USE_SUDO" >@artifacts@/cosign
""",
}


def git(folder: Path, *words: str) -> str:
    env = {name: os.environ[name] for name in ("PATH", "HOME")} | WHO
    done = subprocess.run(["git", "-C", folder, *words], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@dataclass
class Repository:
    """A repository of recipes: the working copy that `project` names, its origin, and what its runs left."""

    project: Project
    env: Mapping[str, str] = field(default_factory=dict)
    runs: int = 0

    @property
    def folder(self) -> Path:
        return self.project.workspace.root

    @property
    def origin(self) -> Path:
        return self.project.folder / "origin.git"

    @property
    def artifacts(self) -> Path:
        """What the last run left for people."""
        return self.project.folder / f"artifacts-{self.runs}"

    def start(self) -> None:
        """Make it a git repository with a branch main, and let its origin have that."""
        (self.folder / ".gitignore").write_text("/.rocm-images\n/dist\n")
        git(self.project.folder, "init", "--bare", "--quiet", "--initial-branch", "main", str(self.origin))
        git(self.folder, "init", "--quiet", "--initial-branch", "main")
        git(self.folder, "remote", "add", "origin", str(self.origin))
        self.commit("recipes")

    def commit(self, message: str, branch: str = "main") -> str:
        git(self.folder, "add", "--all")
        git(self.folder, "commit", "--quiet", "--message", message)
        git(self.folder, "push", "--quiet", "origin", f"HEAD:refs/heads/{branch}")
        git(self.folder, "fetch", "--quiet", "origin")
        return git(self.folder, "rev-parse", "HEAD")

    def act(self, workflow: str, *words: str, event: str = "push") -> Run:
        """Run a workflow of this repository to its end, as after this event."""
        self.runs += 1
        standins = self.project.folder / f"actions-{self.runs}"
        replaced = [f"--local-repository={pin}={place}" for pin, place in self._standins(standins).items()]
        run = subprocess.run(
            [
                BIN / "act", event, "--workflows", f".github/workflows/{workflow}",
                "--platform", "ubuntu-24.04=-self-hosted", "--no-cache-server", *replaced, *words,
            ],
            cwd=self.folder, capture_output=True, text=True, check=False, timeout=SAFETY_SECONDS,
            env={
                **{k: v for k, v in os.environ.items() if k not in ("CI", "GITHUB_ACTIONS", "NO_COLOR")},
                "XDG_CACHE_HOME": str(self.project.folder / "act"), "TMPDIR": str(self.project.scratch),
                "NO_COLOR": "1", **self.env,
            },
        )  # fmt: skip
        (self.project.folder / f"act-{self.runs}.log").write_text(run.stdout + run.stderr)
        return Run(ended=Ended(status=run.returncode, stdout=run.stdout, stderr=run.stderr))

    def _standins(self, folder: Path) -> dict[str, Path]:
        shared = [path for path in (self.folder / ".rocm-images").iterdir() if path.is_symlink()]
        values = {
            "program": shlex.quote(str(REPOSITORY)), "origin": shlex.quote(str(self.origin)),
            "artifacts": shlex.quote(str(self.artifacts)),
            "shared": shlex.join(str(path.resolve()) for path in shared),
        }  # fmt: skip
        found = {}
        for workflow in WORKFLOWS.glob("*.yml"):
            for owner, name, commit in re.findall(
                r"uses: ([a-z-]+)/([a-z-]+)@([0-9a-f]{40})", workflow.read_text()
            ):
                if name not in INPUTS:  # of a workflow that is not run here
                    continue
                place = folder / name
                place.mkdir(parents=True, exist_ok=True)
                lines = [f"name: {name}", "inputs:", *(f"  {each}: {{default: ''}}" for each in INPUTS[name])]
                lines += ["runs:", "  using: composite", "  steps:", "    - shell: bash", "      env:"]
                for each in INPUTS[name]:
                    lines.append(f"        I_{each.upper().replace('-', '_')}: ${{{{ inputs.{each} }}}}")
                script = re.sub(r"@(\w+)@", lambda found: values[found[1]], SCRIPTS[name]).strip().splitlines()
                lines += ["      run: |", *(f"        {line}" for line in script)]
                (place / "action.yml").write_text("\n".join(lines) + "\n")
                found[f"{owner}/{name}@{commit}"] = place
        return found


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run of a workflow: what act said of it."""

    ended: Ended

    @property
    def said(self) -> str:
        return self.ended.stdout + self.ended.stderr

    @property
    def jobs(self) -> dict[str, str]:
        """The jobs that ran, by name, and how each ended."""
        found = re.findall(r"^\[[^]]*?([\w .-]+?) *\] 🏁 +Job (succeeded|failed)", self.said, re.MULTILINE)
        return {name.rpartition("/")[2]: how for name, how in found}

    def output(self, name: str) -> str:
        """Return the last value that a step set an output to."""
        found: list[str] = re.findall(rf"::set-output:: {re.escape(name)}=(.*)$", self.said, re.MULTILINE)
        assert found, self.said
        return found[-1]
