"""The version of the module, which is that of its program."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("privgrad")
except PackageNotFoundError:  # it runs from its sources
    __version__ = "0+sources"
