"""Tiny files in the forms of published data sets, and the expressions that read them.

`python tests/vision/dataset_files.py FOLDER` makes them, reads them with torchvision and prints what it gives, as JSON.
"""

import json
import struct
import zlib
from pathlib import Path

import numpy
from PIL import Image

#: expressions (D: datasets, r: the folder)
CASES = """
D.FlyingChairs(r, "train")
D.FlyingChairs(r, "val")
D.Sintel(r)
D.Sintel(r, pass_name="both")
D.Sintel(r, split="test", pass_name="final")
D.KittiFlow(r)
D.KittiFlow(r, split="test")
D.HD1K(r)
D.HD1K(r, split="test")
D.FlyingThings3D(r)
D.FlyingThings3D(r, split="test", pass_name="both", camera="both")
D.CarlaStereo(r)
D.Kitti2012Stereo(r)
D.Kitti2012Stereo(r, split="test")
D.Kitti2015Stereo(r)
D.CREStereo(r)
D.FallingThingsStereo(r)
D.FallingThingsStereo(r, variant="both")
D.SceneFlowStereo(r)
D.SceneFlowStereo(r, variant="Monkaa", pass_name="both")
D.SceneFlowStereo(r, variant="Driving")
D.SintelStereo(r)
D.SintelStereo(r, pass_name="both")
D.InStereo2k(r)
D.ETH3DStereo(r)
D.ETH3DStereo(r, split="test")
D.Middlebury2014Stereo(r)
D.Middlebury2014Stereo(r, split="test", calibration=None)
D.Cityscapes(r)
D.Cityscapes(r, mode="coarse", split="val", target_type=["semantic", "polygon", "color"])
D.WIDERFace(r)
D.WIDERFace(r, "test")
D.CLEVRClassification(r)
D.CLEVRClassification(r, "test")
D.INaturalist(r, target_type=["full", "family", "genus"])
D.INaturalist(r, "2018", target_type=["full", "super"])
D.Imagenette(r, size="160px")
D.Flickr8k(r + "/flickr", r + "/flickr/page.html")
D.Flickr30k(r + "/flickr", r + "/flickr/lines.token")
D.PhotoTour(r, "liberty")
D.PhotoTour(r, "liberty", train=False)
D.MovingMNIST(r)
D.MovingMNIST(r, split="train", split_ratio=3)
D.MovingMNIST(r, split="test", split_ratio=3)
""".strip().splitlines()


class Maker:
    """Writes files below a folder, with pixels that depend on their name alone."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def path(self, name):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def numbers(self, name, *shape):
        return numpy.random.RandomState(zlib.crc32(name.encode()) % 2 ** 31).randint(0, 256, shape).astype(numpy.uint8)

    def picture(self, name, size=(6, 4), mode="RGB"):
        pixels = self.numbers(name, size[1], size[0], *((3,) if mode == "RGB" else ()))
        Image.fromarray(pixels).save(self.path(name))

    def gray16(self, name, size=(6, 4)):
        values = self.numbers(name, size[1], size[0]).astype(numpy.uint16) * 251 + 7
        Image.fromarray(values).save(self.path(name))

    def flo(self, name, size=(6, 4)):
        values = self.numbers(name, size[1], size[0], 2).astype("<f4") / 8 - 9
        self.path(name).write_bytes(b"PIEH" + struct.pack("<ii", *size) + values.tobytes())

    def pfm(self, name, size=(6, 4), channels=1):
        values = self.numbers(name, size[1], size[0], channels).astype("<f4") / 8
        head = f"{'PF' if channels == 3 else 'Pf'}\n{size[0]} {size[1]}\n-1.0\n"
        self.path(name).write_bytes(head.encode() + values.tobytes())

    def color16(self, name, size=(6, 4)):
        """A PNG of 16 bits whose rows use the five filters in turn."""
        values = self.numbers(name, size[1], size[0], 3, 2)
        values[..., 2, :] = values[..., 2, :1] % 2 * [[[0, 1]]]  # the third number says whether a flow is known
        rows = values.reshape(size[1], -1).astype(int)
        data, before = b"", numpy.zeros_like(rows[0])
        for k, row in enumerate(rows):
            data += bytes([k % 5]) + filtered(row, before, k % 5, 6).astype(numpy.uint8).tobytes()
            before = row
        head = struct.pack(">IIBBBBB", *size, 16, 2, 0, 0, 0)
        chunks = [(b"IHDR", head), (b"IDAT", zlib.compress(data)), (b"IEND", b"")]
        self.path(name).write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
            for kind, body in chunks))

    def text(self, name, text):
        self.path(name).write_text(text)


def filtered(row, above, kind, pixel):
    """The bytes of a row of a PNG after filter 0 to 4 (PNG specification, section 9)."""
    left = numpy.concatenate([numpy.zeros(pixel, int), row[:-pixel]])
    corner = numpy.concatenate([numpy.zeros(pixel, int), above[:-pixel]])
    guess = left + above - corner
    distances = [abs(guess - other) for other in (left, above, corner)]
    nearest = numpy.where((distances[0] <= distances[1]) & (distances[0] <= distances[2]), left,
                          numpy.where(distances[1] <= distances[2], above, corner))
    return (row - [0, left, above, (left + above) // 2, nearest][kind]) % 256


def flows(make):
    for k in range(1, 5):
        make.flo(f"FlyingChairs/data/{k:05d}_flow.flo")
        for j in (1, 2):
            make.picture(f"FlyingChairs/data/{k:05d}_img{j}.ppm")
    make.text("FlyingChairs/FlyingChairs_train_val.txt", "1\n2\n1\n1\n")
    for part in ("training", "test"):
        for scene in ("alley", "cave"):
            for k in range(1, 4):
                for name in ("clean", "final"):
                    make.picture(f"Sintel/{part}/{name}/{scene}/frame_{k:04d}.png")
                if part == "training" and k < 3:
                    make.flo(f"Sintel/training/flow/{scene}/frame_{k:04d}.flo")
    for part in ("training", "testing"):
        for k in (0, 1):
            for j in (10, 11):
                make.picture(f"KittiFlow/{part}/image_2/{k:06d}_{j}.png")
            make.color16(f"KittiFlow/{part}/flow_occ/{k:06d}_10.png")
    for sequence in (0, 3):
        for k in range(3):
            make.picture(f"hd1k/hd1k_input/image_2/{sequence:06d}_{k:04d}.png")
            make.color16(f"hd1k/hd1k_flow_gt/flow_occ/{sequence:06d}_{k:04d}.png")
    for k in (10, 11):
        make.picture(f"hd1k/hd1k_challenge/image_2/000000_00{k}.png")
    for part in ("TRAIN", "TEST"):
        for scene in ("A/0000", "B/0001"):
            for side, letter in (("left", "L"), ("right", "R")):
                for k in (6, 7, 8):
                    for name in ("clean", "final"):
                        make.picture(f"FlyingThings3D/frames_{name}pass/{part}/{scene}/{side}/{k:04d}.png")
                    for way, said in (("into_future", "IntoFuture"), ("into_past", "IntoPast")):
                        make.pfm(f"FlyingThings3D/optical_flow/{part}/{scene}/{way}/{side}/"
                                 f"OpticalFlow{said}_{k:04d}_{letter}.pfm", channels=3)


def stereo(make):
    for scene in ("scene1", "scene2"):
        for k in (0, 1):
            make.picture(f"carla-highres/trainingF/{scene}/im{k}.png")
            make.pfm(f"carla-highres/trainingF/{scene}/disp{k}GT.pfm")
            make.picture(f"ETH3D/two_view_training/{scene}/im{k}.png", mode="L")
            make.picture(f"ETH3D/two_view_test/{scene}/im{k}.png", mode="L")
        make.pfm(f"ETH3D/two_view_training_gt/{scene}/disp0GT.pfm")
        make.picture(f"ETH3D/two_view_training_gt/{scene}/mask0nocc.png", mode="L")
        for side in ("left", "right"):
            make.picture(f"InStereo2k/train/{scene}/{side}.png")
            make.gray16(f"InStereo2k/train/{scene}/{side}_disp.png")
            for name in ("clean", "final"):
                make.picture(f"Sintel/training/{name}_{side}/{scene}/frame_0001.png")
                make.picture(f"SceneFlow/Monkaa/frames_{name}pass/{scene}/{side}/0001.png")
                for variant in ("FlyingThings3D", "Driving"):
                    make.picture(f"SceneFlow/{variant}/frames_{name}pass/a/b/{scene}/{side}/0001.png")
            make.pfm(f"SceneFlow/Monkaa/disparity/{scene}/{side}/0001.pfm")
            for variant in ("FlyingThings3D", "Driving"):
                make.pfm(f"SceneFlow/{variant}/disparity/a/b/{scene}/{side}/0001.pfm")
        make.picture(f"Sintel/training/disparities/{scene}/frame_0001.png")
        for name in ("occlusions", "outofframe"):
            mask = make.numbers(f"{name}{scene}", 4, 6) // 128 * 255
            Image.fromarray(mask).save(make.path(f"Sintel/training/{name}/{scene}/frame_0001.png"))
    for part in ("training", "testing"):
        for k in (0, 1):
            for year, cameras in (("2012", ("colored_0", "colored_1")), ("2015", ("image_2", "image_3"))):
                for camera in cameras:
                    make.picture(f"Kitti{year}/{part}/{camera}/{k:06d}_10.png")
            for folder in ("Kitti2012/training/disp_noc", "Kitti2015/training/disp_occ_0",
                           "Kitti2015/training/disp_occ_1"):
                make.gray16(f"{folder}/{k:06d}_10.png")
    for kind in ("tree", "shapenet", "reflective", "hole"):
        for side in ("left", "right"):
            make.picture(f"CREStereo/{kind}/img1_{side}.png")
            make.path(f"CREStereo/{kind}/img1_{side}.png").rename(make.path(f"CREStereo/{kind}/img1_{side}.jpg"))
            make.gray16(f"CREStereo/{kind}/img1_{side}.disp.png")
    for place in ("single/object/room", "mixed/room"):
        make.text(f"FallingThings/{place}/_camera_settings.json",
                  json.dumps({"camera_settings": [{"intrinsic_settings": {"fx": 768.1605834960938}}]}))
        for side in ("left", "right"):
            make.picture(f"FallingThings/{place}/000001.{side}.png")
            make.path(f"FallingThings/{place}/000001.{side}.png").rename(
                make.path(f"FallingThings/{place}/000001.{side}.jpg"))
            make.gray16(f"FallingThings/{place}/000001.{side}.depth.png")
    middlebury(make)


def middlebury(make):
    scenes = "Adirondack Jadeplant Motorcycle Piano Pipes Playroom Playtable Recycle Shelves Vintage".split()
    tests = ("Plants Classroom2E Classroom2 Australia DjembeL CrusadeP Crusade Hoops Bicycle2 Staircase Newkuba "
             "AustraliaP Djembe Livingroom Computer").split()
    for place in [f"train/{name}-perfect" for name in scenes] + [f"test/{name}" for name in tests]:
        for k in (0, 1):
            make.picture(f"Middlebury2014/{place}/im{k}.png")
            if place.startswith("train"):
                make.pfm(f"Middlebury2014/{place}/disp{k}.pfm")


def labelled(make):
    for split in ("train", "val", "test"):
        for city in ("aachen", "bonn"):
            stem = f"{city}_000001_000019"
            make.picture(f"leftImg8bit/{split}/{city}/{stem}_leftImg8bit.png")
            for mode in ("gtFine", "gtCoarse"):
                for kind in ("instanceIds", "labelIds", "color"):
                    make.picture(f"{mode}/{split}/{city}/{stem}_{mode}_{kind}.png",
                                 mode="RGB" if kind == "color" else "L")
                make.text(f"{mode}/{split}/{city}/{stem}_{mode}_polygons.json", json.dumps({"objects": [city]}))
    for split in ("train", "val", "test"):
        for k, name in enumerate(("0--Parade/a.png", "1--Handshaking/b.png")):
            make.picture(f"widerface/WIDER_{split}/images/{name}", size=(6 + k, 4))
        make.picture(f"clevr/CLEVR_v1.0/images/{split}/CLEVR_{split}_000000.png")
        make.picture(f"clevr/CLEVR_v1.0/images/{split}/CLEVR_{split}_000001.png")
        make.text(f"clevr/CLEVR_v1.0/scenes/CLEVR_{split}_scenes.json", json.dumps(
            {"scenes": [{"image_filename": f"CLEVR_{split}_00000{k}.png", "objects": [{}] * (3 + k)} for k in (1, 0)]}))
        make.text(f"widerface/wider_face_split/wider_face_{split}_bbx_gt.txt",
                  "0--Parade/a.png\n2\n1 2 3 4 0 1 0 0 2 1\n5 6 7 8 1 0 0 1 0 0\n1--Handshaking/b.png\n0\n"
                  "0 0 0 0 0 0 0 0 0 0\n")
    make.text("widerface/wider_face_split/wider_face_test_filelist.txt", "0--Parade/a.png\n1--Handshaking/b.png\n")
    for name in ("00000_Animalia_Chordata_Aves_Anseriformes_Anatidae_Anas_crecca",
                 "00001_Animalia_Chordata_Aves_Anseriformes_Anatidae_Aix_sponsa",
                 "00002_Plantae_Tracheophyta_Liliopsida_Poales_Poaceae_Poa_annua"):
        make.picture(f"2021_train/{name}/1.png")
        make.picture(f"2021_train/{name}/2.png")
    for name in ("Aves/1", "Aves/2", "Plantae/0"):
        make.picture(f"2018/{name}/a.png")
    for wnid in ("n01440764", "n03888257"):
        make.picture(f"imagenette2-160/train/{wnid}/x.png")
        make.path(f"imagenette2-160/train/{wnid}/x.png").rename(make.path(f"imagenette2-160/train/{wnid}/x.JPEG"))


def outlines(make):
    """SBD; its files need SciPy."""
    from scipy import io as scipy_io
    from scipy import sparse as scipy_sparse
    for name in ("2008_1", "2008_2"):
        make.picture(f"img/{name}.jpg")
        edges = numpy.empty((20, 1), dtype=object)
        for k in range(20):
            edges[k, 0] = scipy_sparse.csc_matrix((make.numbers(f"{name}{k}", 4, 6) > 200).astype(numpy.uint8))
        make.path(f"cls/{name}.mat")
        scipy_io.savemat(make.path(f"cls/{name}.mat"), {"GTcls": {
            "Boundaries": edges, "Segmentation": make.numbers(name, 4, 6) % 21}})
    make.text("train.txt", "2008_1\n")
    make.text("val.txt", "2008_2\n")


def others(make):
    sentences = [("1000_a.jpg", "A dog runs ."), ("1000_a.jpg", "It is fast ."), ("2000_b.jpg", "A cat .")]
    for name in ("1000_a", "2000_b"):
        make.picture(f"flickr/{name}.png")
        make.path(f"flickr/{name}.png").rename(make.path(f"flickr/{name}.jpg"))
    make.text("flickr/lines.token", "".join(f"{name}#{k}\t{said}\n" for k, (name, said) in enumerate(sentences)))
    make.text("flickr/page.html", "<html><body><table>" + "".join(
        f"<tr><td><a href='http://www.flickr.com/photos/x/{number}/'>http://www.flickr.com/photos/x/{number}/</a>"
        f"</td><td><ul>{''.join(f'<li>{said}</li>' for said in rows)}</ul></td></tr>"
        for number, rows in (("1000", ["A dog runs .", "It is fast ."]), ("2000", ["A cat ."]))) +
        "</table></body></html>")
    for k in (0, 1):
        make.picture(f"liberty/patches000{k}.bmp", size=(1024, 1024), mode="L")
    make.text("liberty/info.txt", "".join(f"{k // 3} 0\n" for k in range(300)))
    make.text("liberty/m50_100000_100000_0.txt", "0 0 0 1 0 0 0\n5 1 0 299 99 0 0\n")
    numpy.save(make.path("MovingMNIST/mnist_test_seq.npy"), make.numbers("moving", 20, 5, 64, 64))


def make_all(folder):
    make = Maker(folder)
    for part in (flows, stereo, labelled, others):
        part(make)


def described(value):
    """What a sample is: kinds, shapes, and the checksum of its numbers."""
    if isinstance(value, dict):
        return {key: described(entry) for key, entry in sorted(value.items())}
    if isinstance(value, (list, tuple)):
        return [described(entry) for entry in value]
    if isinstance(value, (str, int, float, type(None))):
        return value
    kind = "image" if isinstance(value, Image.Image) else "array" if isinstance(value, numpy.ndarray) else "tensor"
    values = numpy.asarray(value) if kind != "tensor" else value.numpy()
    return f"{kind} {values.dtype} {list(values.shape)} {zlib.crc32(numpy.ascontiguousarray(values).tobytes()):08x}"


def read(datasets, folder, case):
    """The samples of a data set, ordered by their checksums: torchvision leaves some in the order of the disk."""
    found = eval(case, {"D": datasets, "r": str(folder)})
    return sorted((described(found[k]) for k in range(min(len(found), 20))), key=json.dumps)


if __name__ == "__main__":
    import sys

    from torchvision import datasets
    make_all(sys.argv[1])
    results = {}
    for _case in CASES:
        try:
            results[_case] = read(datasets, sys.argv[1], _case)
        except Exception as error:
            print(f"{_case}: {type(error).__name__}: {error}", file=sys.stderr)
    print(json.dumps(results))
