package folder

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"os"
)

// Image reads one file as a record of a shape, as it would be read from a class folder. It is for public images: what
// is wrong with one is said.
func Image(name string, shape [3]int) ([]uint8, error) {
	if shape[0] != 1 && shape[0] != 3 {
		return nil, fmt.Errorf("image %s: images are gray or have three colors, the model reads %d channels", name, shape[0])
	}
	record := make([]uint8, shape[0]*shape[1]*shape[2])
	d := decoder{shape: shape}
	switch d.read(name, record) {
	case asIs, resized:
		return record, nil
	case unreadable:
		return nil, fmt.Errorf("image %s cannot be read: see that it is a file, and that you may read it", name)
	case oversized:
		return nil, fmt.Errorf("image %s is too large: the most are %d MiB, %d million pixels, and %d on a side", name, mostBytes>>20, mostPixels/1_000_000, mostSide)
	}
	return nil, fmt.Errorf("image %s is no PNG and no JPEG that can be decoded: convert it, or leave it out", name)
}

// Images are the files of a folder that can be images, by their names, in alphabetical order.
func Images(dir string) ([]string, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, f := range files {
		if f.Type().IsRegular() && slices.Contains(endings, strings.ToLower(filepath.Ext(f.Name()))) {
			names = append(names, filepath.Join(dir, f.Name()))
		}
	}
	return names, nil
}
