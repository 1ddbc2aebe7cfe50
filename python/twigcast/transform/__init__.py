"""Transforms beyond their language: what they mean (reference, render) and how they are planned (plan)."""
