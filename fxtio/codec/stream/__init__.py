"""The engine for records of single bytes and LEB128 numbers: declarations, codec, steps for kernels, annotations.

A record is declared once (`declare`).  From the declaration follow generated Python functions that decode and encode
one record (`codec`), steps with which kernels decode and encode many (`steps`, `kernels`), and annotated bytes and
tables for the documents (`describe`).  The engine knows no event of Mono.
"""
