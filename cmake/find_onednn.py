"""Print "include directory;library file" of the installed oneDNN wheels, for CMake."""

import importlib.metadata
import sys


def find(package, suffix):
    for file in importlib.metadata.files(package) or ():
        if str(file).endswith(suffix):
            path = file.locate().resolve()
            if path.exists():
                return path
    return None


def main():
    try:
        header = find("onednn-devel-cpu-gomp", "include/dnnl.hpp")
        library = find("onednn-cpu-gomp", "libdnnl.so.3") or find("onednn-devel-cpu-gomp", "libdnnl.so.3")
    except importlib.metadata.PackageNotFoundError as error:
        sys.exit(f"oneDNN wheel not installed: {error}")
    if header is None or library is None:
        sys.exit("the oneDNN wheels are installed but dnnl.hpp or libdnnl.so.3 is missing")
    print(f"{header.parent};{library}", end="")


if __name__ == "__main__":
    main()
