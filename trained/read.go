package trained

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/datasets/folder"
	"github.com/privgrad/privgrad/datasets/numpy"
	"github.com/privgrad/privgrad/features"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/source"
	"github.com/privgrad/privgrad/internal/usage"
)

// Read reads records for Predict, and their names. Each path is an image in PNG or JPEG, a folder of some, also in folders inside it, an array that
// numpy.save wrote, whose name ends in .npy, or, of a model that was trained on a table, a table with the
// columns of its schema, of which a column of labels is ignored. Of datasets.Piped it is the table, or else the array, that
// standard input has. Options.Warn hears of values there that could not be read. Images are brought to the model's shape as those of an image folder are.
func (m *Model) Read(paths ...string) (names []string, records features.Images, err error) {
	for _, path := range paths {
		its, more, err := m.readOne(path)
		if err != nil {
			return nil, features.Images{}, err
		}
		names = append(names, its...)
		records.Bytes, records.Values = append(records.Bytes, more.Bytes...), append(records.Values, more.Values...)
	}
	return names, records, nil
}

func (m *Model) readOne(path string) (names []string, records features.Images, err error) {
	switch {
	case path == datasets.Piped && m.readsTables():
		return m.readTable(path)
	case path == datasets.Piped:
		return m.readArray(path)
	}
	info, err := os.Stat(path)
	if err != nil {
		give := "an image, a folder of images, or a .npy file"
		switch {
		case m.readsTables():
			give = "a table with the columns of its schema, or a .npy file"
		case m.reading == rundir.AsIs:
			give = "a .npy file of float32"
		}
		return nil, records, usage.Errorf("%s cannot be read (%w): give %s", path, usage.Cause(err), give)
	}
	switch {
	case !info.IsDir() && strings.EqualFold(filepath.Ext(path), ".npy"):
		return m.readArray(path)
	case !info.IsDir() && strings.EqualFold(filepath.Ext(path), ".npz"):
		return nil, records, usage.Errorf("%s is an archive, and one array is read: save it by numpy.save(\"x.npy\", numpy.load(%q)[\"NAME\"]), with the name of the array, and give x.npy", path, path)
	case !info.IsDir() && m.readsTables():
		return m.readTable(path)
	case m.reading == rundir.AsIs:
		return nil, records, usage.Errorf("%s: the model of %s reads floating-point values, not images: give them as a file .npy of float32", path, m.dir)
	}
	names = []string{path}
	if info.IsDir() {
		if names, err = folder.Images(path); err != nil {
			return nil, records, usage.Wrap(err)
		}
		if len(names) == 0 {
			return nil, records, usage.Errorf("folder %s has no images, nor have the folders inside it: their names end in .png, .jpg or .jpeg; give a folder of some", path)
		}
	}
	for _, name := range names {
		image, err := folder.Image(name, m.shape)
		if err != nil {
			return nil, records, usage.Wrap(err)
		}
		records.Bytes = append(records.Bytes, image...)
	}
	return names, records, nil
}

// readsTables says whether the model was trained on a table, perhaps cut into shards.
func (m *Model) readsTables() bool {
	return m.facts[rundir.Schema] != "" || strings.HasPrefix(m.config.Data, source.TablePrefix)
}

// readTable names records by their numbers, from 0.
func (m *Model) readTable(path string) (names []string, records features.Images, err error) {
	s, doubts, err := source.Unlabeled(&m.config, path)
	if err != nil {
		return nil, records, err
	}
	if s.Shape != m.shape {
		return nil, records, usage.Errorf("table %s: its schema gives %d values a record, the model of %s reads %d: it was trained by another schema; restore that", path, s.Shape[2], m.dir, m.shape[2])
	}
	for _, doubt := range doubts {
		if m.options.Warn != nil {
			m.options.Warn(doubt)
		}
	}
	return numbered(path, s.Len()), features.Images{Values: s.Values}, nil
}

// readArray names records by their numbers, from 0.
func (m *Model) readArray(path string) (names []string, records features.Images, err error) {
	s, err := numpy.Array(path, m.shape)
	if err != nil {
		return nil, records, usage.Wrap(err)
	}
	if (s.Values != nil) != (m.reading == rundir.AsIs) {
		kind := map[bool]string{true: "float32", false: "uint8"}
		return nil, records, usage.Errorf("array %s holds %s, the model of %s reads %s: convert it by .astype", path, kind[s.Values != nil], m.dir, kind[s.Values == nil])
	}
	n := (len(s.Features) + len(s.Values)) / (m.shape[0] * m.shape[1] * m.shape[2])
	return numbered(path, n), features.Images{Bytes: s.Features, Values: s.Values}, nil
}

func numbered(path string, records int) (names []string) {
	for i := range records {
		names = append(names, fmt.Sprintf("%s[%d]", path, i))
	}
	return names
}
