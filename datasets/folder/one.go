package folder

import (
	"fmt"
	"path/filepath"

	"github.com/privgrad/privgrad/datasets"
)

// Image reads one file as a record of a shape, as it would be read from a class folder. It is for public images: what
// is wrong with one is said.
func Image(name string, shape [3]int) ([]uint8, error) {
	if shape[0] != 1 && shape[0] != 3 {
		return nil, fmt.Errorf("image %s: images are gray or have three colors, the model reads %d channels", name, shape[0])
	}
	record := make([]uint8, shape[0]*shape[1]*shape[2])
	d := decoder{shape: shape}
	if _, err := d.read(name, record); err != nil {
		return nil, fmt.Errorf("image %s %w", name, err)
	}
	return record, nil
}

// Images are the files of a folder that can be images, and those of the folders inside it, in the order of their paths. As in
// class folders, links and what is hidden are none of them.
func Images(dir string) ([]string, error) {
	files, err := readDir(dir)
	if err != nil {
		return nil, fmt.Errorf("folder %s %w", dir, datasets.Unread(err, nil))
	}
	var names []string
	for _, f := range files {
		path := filepath.Join(dir, f.Name())
		switch {
		case f.IsDir() && !hidden(f.Name()):
			inside, err := Images(path)
			if err != nil {
				return nil, err
			}
			names = append(names, inside...)
		case f.Type().IsRegular() && isImage(f.Name()):
			names = append(names, path)
		}
	}
	return names, nil
}
