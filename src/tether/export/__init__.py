"""Policies for elsewhere: one file that knows what it has seen, and ONNX.

finding.py   the policy of a run or a file, with its experience, fitted where there is none
graph.py     NumPy's few functions that write down ONNX nodes instead
model.py     a policy as an ONNX model, and the check of it by onnxruntime
"""
