"""Print "include directory;library file;folder of its licences" of the installed oneDNN wheels, for CMake."""

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
        library, licence = find("onednn-cpu-gomp", "libdnnl.so.3"), find("onednn-cpu-gomp", "onednn/LICENSE")
    except importlib.metadata.PackageNotFoundError as error:
        sys.exit(f"oneDNN wheel not installed: {error}")
    if None in (header, library, licence):
        sys.exit("the oneDNN wheels are installed, but dnnl.hpp, libdnnl.so.3 or the licence is missing")
    print(f"{header.parent};{library};{licence.parent}", end="")


if __name__ == "__main__":
    main()
