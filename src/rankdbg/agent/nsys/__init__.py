"""This rank under `nsys profile`: started again below it, captured, its report written whole."""
