"""What a stage and a pipeline are, and where the files that stages make are written."""

from dataclasses import dataclass
from typing import Literal

from dlbuild.ir.target import Target

Folder = Literal["rules/ops", "templates", "boards"]
Program = Literal["cc", "ar", "size"]


@dataclass(frozen=True)
class Stage:
    """One step of the pipeline, and all that it may depend on.

    version: raised when the meaning of its files changes without a change of its code.
    module: has `run(job)`; imported only if the stage has to run.
    again: has `run(job, before)`, which makes the files of other sources from those of former ones,
    or gives None if it cannot tell; all else in the key is as it was.
    reads, makes: names of files (see FILES).
    model, target, options: fields of the recipe that it may see.
    folders: kinds of files that it reads from packs and the built-in folder.
    measurements: whether it sees the build's file of measurements.
    of: which targets it is for: `all`, those with `clusters`, or those with `one` cluster.
    libraries: distributions whose versions can change its result.
    programs: fields of the target's toolchain that it runs. counting: those that it runs to count
    flash, of builds for which flash comes first.
    """

    name: str
    module: str
    reads: tuple[str, ...] = ()
    makes: tuple[str, ...] = ()
    version: int = 1
    model: tuple[str, ...] = ()
    target: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    folders: tuple[Folder, ...] = ()
    measurements: bool = False
    of: Literal["all", "clusters", "one"] = "all"
    libraries: tuple[str, ...] = ()
    again: str = ""
    programs: tuple[Program, ...] = ()
    counting: tuple[Program, ...] = ()


@dataclass(frozen=True)
class Gate:
    """A check of all models of a target together.

    module: has `check(target, models)`. needs: the files that it reads of each model.
    before: stages that do not run unless the check holds.
    """

    name: str
    module: str
    needs: tuple[str, ...]
    before: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pipeline:
    """Stages in order, and the checks between them."""

    stages: tuple[Stage, ...]
    gates: tuple[Gate, ...] = ()

    @property
    def maker(self) -> dict[str, str]:
        """The stage that makes each file."""
        return {file: stage.name for stage in self.stages for file in stage.makes}

    def on(self, target: Target) -> "Pipeline":
        """Return the part that a target needs."""
        kind = "clusters" if target.clusters else "one"
        stages = tuple(stage for stage in self.stages if stage.of in ("all", kind))
        return Pipeline(stages, self.gates)

    @property
    def of_sources(self) -> "Pipeline":
        """The part that runs no program: C is made, nothing is compiled or measured."""
        made: set[str] = set()
        stages = []
        for stage in self.stages:
            if not stage.programs and made.issuperset(stage.reads):
                stages.append(stage)
                made.update(stage.makes)
        gates = tuple(gate for gate in self.gates if made.issuperset(gate.needs))
        return Pipeline(tuple(stages), gates)


FILES = {
    "model_graph": "plan/0-model.json",
    "graph": "plan/1-graph.json",
    "profile": "plan/2-profile.json",
    "costs": "plan/2-costs.json",
    "tiles": "plan/3-tiles.json",
    "schedule": "plan/4-schedule.json",
    "size": "plan/5-size.json",
    "image_layout": "plan/6-image.json",
    "merged": "plan/5-merged.json",
    "header": "{model}.h",
    "source": "{model}.c",
    "weights_header": "{model}_weights.h",
    "port_header": "dlb_port.h",
    "port_source": "dlb_port_memcpy.c",
    "cores_source": "dlb_port_cores.c",
    "weights_source": "{model}_weights.c",
    "weights_binary": "{model}_weights.bin",
    "image": "{model}_image.bin",
    "image_hex": "{model}_image.hex",
    "object": "{model}.o",
    "weights_object": "{model}_weights.o",
    "archive": "lib{model}.a",
    "annotated": "{model}.profile.onnx",
    "clustered": "{model}.clusters.onnx",
    "depfile": "{model}.d",
    "make": "{model}.mk",
    "cmake": "{model}.cmake",
}
"""Where files are written, in the folder of a build; files not named here stay in the store.
The depfile is no stage's: it names paths, which no stage sees.

A file without content is not written: weights_binary, unless the tables are embedded; those of
images, unless weights are flashed apart; those of the port, unless kernels run through a near
memory or on several cores."""
