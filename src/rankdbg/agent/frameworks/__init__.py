"""Frameworks that start processes of their own and keep the main thread: Ray, Monarch."""
