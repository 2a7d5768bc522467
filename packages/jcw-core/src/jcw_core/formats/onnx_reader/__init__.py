"""Networks from ONNX files; needs the package onnx (extra ``[onnx]``)."""

from jcw_core.formats.onnx_reader.network import read_onnx, read_onnx_model

__all__ = ["read_onnx", "read_onnx_model"]
