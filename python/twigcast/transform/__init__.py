"""Transforms beyond their language: how the kernel takes them, and how they are explained."""
