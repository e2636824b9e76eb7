"""Blurs a sky with a telescope's point-spread function, then finds its stars again by template matching. NumPy only.

    python examples/python/filter_image.py [-o picture.png]

Both steps are convolutions with a 41 x 41 kernel. convoy.conv2d is a cross-correlation, as in deep learning: that is what matching a
template means; a blur with a kernel that is not symmetric would flip it first (psf[::-1, ::-1], a view, is read in place).
"""
import argparse

import numpy as np

import convoy

SIDE, REACH = 256, 20  # of the image; of the kernel on either side of its middle


def sky(rng, stars):
    """A dark image with stars of several magnitudes, at least a few pixels from each other and from the edge; and where they are."""
    places = []
    while len(places) < stars:
        y, x = rng.integers(12, SIDE - 12, 2)
        if all(max(abs(y - a), abs(x - b)) > 9 for a, b in places):
            places.append((int(y), int(x)))
    scene = np.zeros((SIDE, SIDE), np.float32)
    for y, x in places:
        scene[y, x] = 1500 * 10 ** (-0.4 * rng.uniform(0, 3))
    return scene, places


def moffat(width=2.5, power=2.2):
    """A star as a telescope sees it: a core with wide wings (a Moffat profile), with a spider's four faint spikes."""
    y, x = np.mgrid[-REACH:REACH + 1, -REACH:REACH + 1].astype(np.float32)
    psf = (1 + (y * y + x * x) / width**2) ** -power
    psf += 0.02 * (np.exp(-np.abs(y)) + np.exp(-np.abs(x))) * np.exp(-np.hypot(y, x) / 8)
    return (psf / psf.sum()).astype(np.float32)


def match(image, template):
    """The normalised correlation of every window of the image with the template, in [-1, 1]: three convolutions."""
    t = template - template.mean()
    ones = np.ones_like(template)
    above = convoy.conv2d(image, t, padding="same")
    total = convoy.conv2d(image, ones, padding="same")
    energy = convoy.conv2d(image * image, ones, padding="same") - total * total / ones.size
    return above / (np.sqrt(np.maximum(energy, 1e-6)) * np.sqrt((t * t).sum()))


def peaks(score, threshold, radius=4):
    """Places that exceed the threshold and everything within radius."""
    found = []
    for y, x in zip(*np.where(score > threshold)):
        y0, x0 = max(0, y - radius), max(0, x - radius)
        if score[y, x] == score[y0:y + radius + 1, x0:x + radius + 1].max():
            found.append((int(y), int(x)))
    return found


def picture(path, panels, found):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from PIL import Image

    figure, axes = pyplot.subplots(1, len(panels), figsize=(3.2 * len(panels), 3.4), dpi=72, layout="constrained")
    for axis, (title, image, limits) in zip(axes, panels):
        axis.imshow(image, cmap="magma", vmin=limits[0], vmax=limits[1], interpolation="nearest")
        axis.set_title(title, fontsize=9)
        axis.set_axis_off()
    ys, xs = zip(*found)
    axes[-1].scatter(xs, ys, s=60, facecolors="none", edgecolors="cyan", linewidths=0.8)
    figure.canvas.draw()
    Image.fromarray(np.asarray(figure.canvas.buffer_rgba())[..., :3]).quantize(64).save(path, optimize=True)  # noise packs badly


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", help="a picture of the steps (needs matplotlib)")
    output = parser.parse_args().output
    rng = np.random.default_rng(11)
    scene, places = sky(rng, 45)
    psf = moffat()
    seen = convoy.conv2d(scene, psf, padding="same") + rng.normal(0, 1.0, scene.shape).astype(np.float32)
    score = match(seen, psf[REACH - 7:REACH + 8, REACH - 7:REACH + 8])  # the core: wings of neighbours would count against it
    found = peaks(score, 0.5)
    hits = sum(any(max(abs(y - a), abs(x - b)) <= 1 for a, b in found) for y, x in places)
    print(f"{len(places)} stars, {len(found)} found, {hits} of them where a star is (within a pixel)")
    if output:
        picture(output, [("what is there", np.sqrt(scene), (0, 20)), (f"seen: {psf.shape[0]} x {psf.shape[0]} blur and noise", seen, (-2, 25)),
                         (f"match, and the {len(found)} stars found", score, (0, 1))], found)
    if hits < 0.9 * len(places) or len(found) > hits + 3:
        raise SystemExit("too many stars were lost or made up")


if __name__ == "__main__":
    main()
