package folder

import (
	"fmt"
	"strconv"

	"github.com/privgrad/privgrad/datasets"
)

// mostNotes is how many files of a kind an owner is told of by name.
const mostNotes = 10

func verify(path string, d datasets.Declared) (*datasets.OwnReport, error) {
	set, train, test, err := read(path, d)
	r := &datasets.OwnReport{Set: set, Structure: err}
	if err != nil {
		return r, nil
	}
	r.CountClasses()
	for _, k := range []struct {
		verdict
		what string
	}{
		{asIs, "images of " + size(set, d)}, {resized, "images that are resized"},
		{oversized, fmt.Sprintf("too large: more than %d pixels, %d on a side, or %d MiB", mostPixels, mostSide, mostBytes>>20)},
		{unreadable, "files that cannot be read"}, {corrupt, "damaged images, or no PNG or JPEG"},
	} {
		r.Private.Counts = append(r.Private.Counts, datasets.Count{What: k.what, Train: train.count(k.verdict), Test: test.count(k.verdict)})
		if k.verdict >= oversized {
			note(r, k.what, append(train.told(k.verdict), test.told(k.verdict)...))
		}
	}
	r.Private.Counts = append(r.Private.Counts,
		datasets.Count{What: "links and folders in class folders, left out", Train: train.links, Test: test.links},
		datasets.Count{What: "hidden files, and files with other endings, left out", Train: train.unnamed, Test: test.unnamed})
	for _, s := range []struct {
		part string
		seen
	}{{"train", train}, {"test", test}} {
		r.Private.Faults = append(s.closed(), r.Private.Faults...)
		if len(s.others) > 0 {
			r.Private.Faults = append(r.Private.Faults, fmt.Sprintf("%s has %s that --class-names does not list", s.part, several("a folder", "folders", s.others)))
		}
	}
	var unlisted []string
	for _, name := range append(train.unlisted, test.unlisted...) {
		unlisted = append(unlisted, strconv.Quote(name))
	}
	note(r, "beside the listed classes, left out", unlisted)
	return r, nil
}

// size is that of every record, in words.
func size(set *datasets.Set, d datasets.Declared) string {
	text := fmt.Sprintf("%d×%d", set.Train.Shape[1], set.Train.Shape[2])
	if d.Size == "" {
		return text + " (the default)"
	}
	return text + " (the declared size)"
}

func (s *seen) count(v verdict) (n int) {
	for _, its := range s.verdicts {
		if its == v {
			n++
		}
	}
	return n
}

// told are the files of a verdict, and what is wrong with each.
func (s *seen) told(v verdict) (files []string) {
	for i, name := range s.names {
		if s.verdicts[i] == v {
			files = append(files, fmt.Sprintf("%q %v", name, s.why[i]))
		}
	}
	return files
}

// note tells of the first files of a kind.
func note(r *datasets.OwnReport, what string, files []string) {
	for i, file := range files {
		if i == mostNotes {
			r.Private.Notes = append(r.Private.Notes, fmt.Sprintf("%s: and %d more", what, len(files)-i))
			return
		}
		r.Private.Notes = append(r.Private.Notes, what+": "+file)
	}
}
