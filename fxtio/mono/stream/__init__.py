"""The engine for records of single bytes and LEB128 numbers: declarations, codec, programs for kernels, annotations.

A record is declared once (`declare`).  From the declaration follow generated Python functions that decode and encode
one record (`codec`), programs with which kernels decode and encode many (`program`, `kernels`), and annotated bytes and
tables for the documents (`describe`).  The engine knows no event of Mono.
"""
