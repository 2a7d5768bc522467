"""What jcw-core itself registers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jcw_core.hookspecs import hookimpl

if TYPE_CHECKING:
    import click

    from jcw_core.protocols import Backbone, DatasetPlugin, Exporter, Importance, Objective, Stage


@hookimpl
def jcw_register_backbones() -> Sequence[Backbone]:
    """ResNet-18, ResNet-50, MobileNetV1 and MobileNetV2."""
    from jcw_core.backbones.mobilenet_v1 import MOBILENET_V1
    from jcw_core.backbones.mobilenet_v2 import MOBILENET_V2
    from jcw_core.backbones.resnet import RESNET18, RESNET50

    return [RESNET18, RESNET50, MOBILENET_V1, MOBILENET_V2]


@hookimpl
def jcw_register_datasets() -> Sequence[DatasetPlugin]:
    """Fashion-MNIST, CIFAR-10 and folders of images."""
    from jcw_core.datasets.cifar10 import Cifar10
    from jcw_core.datasets.fashion_mnist import FashionMnist
    from jcw_core.datasets.image_folder import ImageFolder
    from jcw_core.datasets.images import Images

    return [FashionMnist(), Cifar10(), ImageFolder(), Images()]


@hookimpl
def jcw_register_stages() -> Sequence[Stage]:
    """Training the supernet, exporting models, and the report."""
    from jcw_core.report.stages import ReportStage
    from jcw_core.run.export import ExportStage
    from jcw_core.supernet.stages import SupernetStage

    return [SupernetStage(), ExportStage(), ReportStage()]


@hookimpl
def jcw_register_exporters() -> Sequence[Exporter]:
    """Safetensors and ONNX."""
    from jcw_core.formats.onnx_writer import OnnxExporter
    from jcw_core.formats.safetensors_file import SafetensorsExporter

    return [SafetensorsExporter(), OnnxExporter()]


@hookimpl
def jcw_register_objectives() -> Sequence[Objective]:
    """Error, loss and distance from the dense network, as the supernet estimates them."""
    from jcw_core.supernet.objective import DISTANCE, ERROR, LOSS

    return [ERROR, LOSS, DISTANCE]


@hookimpl
def jcw_register_importances() -> Sequence[Importance]:
    """The optimal brain surgeon's, Taylor's, batch norm's scale, and the L1 norm."""
    from jcw_core.post_training.criteria import CRITERIA

    return CRITERIA


@hookimpl
def jcw_register_commands() -> Sequence[click.Command]:
    """From ``init``, ``compress`` and ``run`` to ``watch`` and ``show``, and those that list what there is."""
    from jcw_core.begin.command import init
    from jcw_core.cli import commands, listings
    from jcw_core.cli.completion import completion
    from jcw_core.cli.doctor import doctor
    from jcw_core.compress.command import compress
    from jcw_core.new_plugin.command import new_plugin
    from jcw_core.watch.command import watch

    own = [compress, commands.run, listings.recipe, listings.plugins, listings.networks, commands.show]
    return [init, *own, watch, doctor, completion, new_plugin]
