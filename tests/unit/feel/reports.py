"""Reports for tests: one of everything that went well, one that failed, one in which every text is an attack."""

from __future__ import annotations

from builder import compare
from builder.report import BuildReport, Ended, Layer, Patch, Step, Test, Took

ATTACK = (
    "\"'></style></title><script>alert(1)</script><img src=x onerror=alert(2)>&lt;\u202e\x1b[31m\x00\udcff${x}"
)
DOCKERFILE = """\
FROM base-runtime AS runtime-packages
RUN --network=none \\
  --mount=type=bind,source=debs/runtime,target=/mnt \\
  ["sh", "/media/install-debs.sh", "0"]

FROM base-build AS build

FROM build AS component-triton
FROM build AS component-kernels
RUN --network=none \\
  --mount=type=bind,from=component-triton,source=/out,target=/mnt \\
  ["sh", "/media/build-source.sh", "0"]
ENV A="--mount=type=bind,from=nowhere"

FROM runtime-packages
COPY --link --from=component-triton /out/ /
COPY --link --from=component-kernels /out/ /
"""
LOG = """\
#1 [internal] load build definition from Dockerfile
#1 DONE 0.0s
#2 [context base-build] OCI load from client
#2 DONE 0.4s
#3 [runtime-packages 1/2] RUN --network=none ["sh", "/media/install-debs.sh", "0"]
#3 0.101 #4 DONE 99.0s
#4 [component-triton 1/1] RUN --network=none ["python3", "/media/install_wheels.py"]
#4 CACHED
#3 DONE 12.3s

#3 [runtime-packages 1/2] RUN --network=none ["sh", "/media/install-debs.sh", "0"]
#5 [component-kernels 2/2] RUN --network=none ["sh", "/media/build-source.sh", "0"]
#5 ERROR: process "sh" did not complete successfully: exit code: 1
#6 [stage-4 1/3] COPY --link --from=component-triton /out/ /
#6 CANCELED
#7 exporting to image
#7 DONE 3.5s
"""


def record(triton: str, digest: str) -> dict[str, object]:
    """Return as much of a record as a difference needs."""
    return {
        "image": "probe",
        "version": "1.0",
        "reference": f"host/probe:1.0@sha256:{digest * 64}",
        "digest": f"sha256:{digest * 64}",
        "content-key": digest * 64,
        "fingerprint": "f" * 16,
        "gfx": ["gfx1201"],
        "python": "3.13",
        "components": [{"name": "triton", "version": triton, "sha256": digest * 64}],
        "patches": [],
        "bases": {},
        "packages": {},
        "distributions": [],
        "contract": {},
        "fingerprint-inputs": {},
        "layers": [{"owner": "triton", "digest": f"sha256:{digest * 64}", "size": 3_000_000}],
    }


def whole() -> BuildReport:
    """Return a report with one of everything."""
    return BuildReport(
        image="probe",
        version="1.0",
        description="A probe",
        gfx=("gfx1201",),
        content_key="b" * 64,
        fingerprint="f" * 16,
        action="build",
        reasons=("component.triton: version 3.5.1 -> 3.6.0",),
        outcome="built, tested and published",
        program="0.1.0",
        reference="host/probe:1.0@sha256:" + "b" * 64,
        digest="sha256:" + "b" * 64,
        dockerfile=DOCKERFILE,
        steps=(
            Step(stage="runtime-packages", text="RUN --network=none install", seconds=12.3, state="done"),
            Step(stage="component-triton", text="RUN install", seconds=0.0, state="cached"),
            Step(stage="image", text="COPY --link /out/ /", seconds=0.0, state="done"),
        ),
        took=(Took(text="building probe", seconds=20.0), Took(text="fetching", seconds=2.5, depth=1)),
        layers=(
            Layer(owner="base", digest="sha256:" + "1" * 64, size=30_000_000),
            Layer(owner="triton", digest="sha256:" + "2" * 64, size=180_000_000),
            Layer(owner="triton", digest="sha256:" + "3" * 64, size=20_000_000),
            Layer(owner="manifest", digest="sha256:" + "4" * 64, size=0),
        ),
        tests=(
            Test(title="triton compiles a kernel", tier="cpu", outcome="passed", seconds=0.9),
            Test(title="a kernel runs", tier="gpu", outcome="not run", seconds=0.0, cause="there is no card"),
        ),
        patches=(
            Patch(
                name="wide",
                target="sglang",
                kind="edit",
                state="effective",
                reason="aborts with one rank",
                upstream="https://github.com/sgl-project/sglang/pull/1",
                drop_when="it is released",
                before="1",
                after="2",
            ),
        ),
        difference=compare.compare(
            compare.of_record(record("3.5.1", "a"), label="before"),
            compare.of_record(record("3.6.0", "b"), label="now"),
        ),
    )


def failed() -> BuildReport:
    """Return the report of a build that failed in a stage."""
    return BuildReport(
        image="probe",
        version="1.0",
        description="",
        gfx=("gfx1201", "gfx942"),
        content_key="b" * 64,
        fingerprint="f" * 16,
        action="build",
        reasons=("no record of an earlier build",),
        outcome="the build failed",
        program="0.1.0",
        dockerfile=DOCKERFILE,
        ended=Ended(
            message="the build failed in [component-kernels] sh build-source.sh",
            details=("a.cpp:1:2: error: no", "stage component-kernels"),
            hint="grep '^#5 ' build.log",
        ),
        steps=(Step(stage="component-kernels", text="RUN build", seconds=0.0, state="failed"),),
        took=(Took(text="building probe", seconds=20.0),),
        patches=(Patch(name="wide", target="sglang", kind="edit", state="not judged", upstream="none"),),
    )


def hostile() -> BuildReport:
    """Return a report in which every text is an attack on whoever opens it."""
    bad = ATTACK
    return BuildReport(
        image=bad,
        version=bad,
        description=bad,
        gfx=(bad,),
        content_key=bad,
        fingerprint=bad,
        action=bad,
        reasons=(bad,),
        outcome=bad,
        program=bad,
        reference=bad,
        digest=bad,
        ended=Ended(message=bad, details=(bad,), hint=bad),
        dockerfile=f"FROM x AS {bad.split()[0]}\nFROM y",
        steps=(Step(stage=bad, text=bad, seconds=1.0, state="done"),),
        took=(Took(text=bad, seconds=1.0),),
        layers=(Layer(owner=bad, digest=bad, size=10),),
        tests=(
            Test(title=bad, tier=bad, outcome="failed", seconds=1.0, production=bad, cause=bad, details=(bad,)),
        ),
        patches=(
            Patch(
                name=bad,
                target=bad,
                kind=bad,
                state=bad,
                reason=bad,
                upstream="javascript:alert(3)",
                drop_when=bad,
                before=bad,
                after=bad,
            ),
            Patch(name="x", target="y", kind="z", state="s", upstream="https://x.example/" + bad),
        ),
        difference=compare.compare(
            compare.of_record(record("1", "a"), label=bad),
            compare.of_record(
                record(bad, "b") | {"reference": bad, "patches": [{"name": bad, "target": bad}]}, label=bad
            ),
        ),
    )
