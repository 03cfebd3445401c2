package datasets

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/privgrad/privgrad/internal/durable"
	"github.com/privgrad/privgrad/internal/written"
)

// Download is one file at its publisher's address. A .tar.gz is unpacked; any
// other file is stored as it comes.
type Download struct {
	URL    string
	SHA256 string // of the bytes at URL
	Size   int64
	Files  []Content
}

// Content is a file of a set after decompression, however it was compressed.
type Content struct {
	Name   string
	SHA256 string // "" where none was published
	Size   int64
}

const (
	mnistBase   = "https://ossci-datasets.s3.amazonaws.com/mnist/"
	fashionBase = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
)

// upstream is the one table of addresses. Digests bind Fetch and inform Verify;
// opening a set never looks at them.
var upstream = map[string][]Download{
	"mnist": {
		idx(mnistBase, "train-images-idx3-ubyte", 9912422,
			"440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
			"ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db", 47040016),
		idx(mnistBase, "train-labels-idx1-ubyte", 28881,
			"3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
			"65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5", 60008),
		idx(mnistBase, "t10k-images-idx3-ubyte", 1648877,
			"8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
			"0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7", 7840016),
		idx(mnistBase, "t10k-labels-idx1-ubyte", 4542,
			"f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
			"ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2", 10008),
	},
	// The built-in copies come from Debian, which stripped the names and dates
	// that gzip stores, so only their contents have these digests.
	"fmnist": {
		idx(fashionBase, "train-images-idx3-ubyte", 26421880,
			"3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
			"c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888", 47040016),
		idx(fashionBase, "train-labels-idx1-ubyte", 29515,
			"a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
			"bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9", 60008),
		idx(fashionBase, "t10k-images-idx3-ubyte", 4422102,
			"346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
			"5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b", 7840016),
		idx(fashionBase, "t10k-labels-idx1-ubyte", 5148,
			"67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
			"0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34", 10008),
	},
	"cifar10": {{
		URL:    "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
		SHA256: "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
		Size:   170052171,
		Files: []Content{
			{Name: "data_batch_1.bin", Size: 30730000},
			{Name: "data_batch_2.bin", Size: 30730000},
			{Name: "data_batch_3.bin", Size: 30730000},
			{Name: "data_batch_4.bin", Size: 30730000},
			{Name: "data_batch_5.bin", Size: 30730000},
			{Name: "test_batch.bin", Size: 30730000},
		},
	}},
	"cifar100": {{
		URL:    "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
		SHA256: "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
		Size:   168513733,
		Files: []Content{
			{Name: "train.bin", Size: 153700000},
			{Name: "test.bin", Size: 30740000},
		},
	}},
}

// idx is a file that is published gzipped.
func idx(base, name string, size int64, packed, content string, length int64) Download {
	return Download{base + name + ".gz", packed, size, []Content{{name, content, length}}}
}

// Downloads returns where a set is published, nil if nowhere known.
func Downloads(set string) []Download { return upstream[set] }

func contents(ds []Download) map[string]Content {
	byName := make(map[string]Content)
	for _, d := range ds {
		for _, f := range d.Files {
			byName[f.Name] = f
		}
	}
	return byName
}

// Fetch downloads a set's missing files into dir, which it makes if need be. A
// file that is there, with or without .gz, is left alone if its content is the
// published one (its size, where no digest of the content was published) and is
// an error otherwise: nothing is overwritten. What comes is checked against its
// SHA-256 before it gets its name. A broken download resumes at the next call.
// progress, unless nil, receives the bytes so far of those needed.
func Fetch(ctx context.Context, l *Layout, dir string, progress func(done, total int64)) error {
	if progress == nil {
		progress = func(int64, int64) {}
	}
	return fetch(ctx, l, upstream[l.Name], dir, progress)
}

func fetch(ctx context.Context, l *Layout, all []Download, dir string, progress func(done, total int64)) error {
	if all == nil {
		return fmt.Errorf("fetch: no address is known for %s: put its files into %s yourself", l.Name, dir)
	}
	if dir == "" {
		return fmt.Errorf("fetch: no directory is set for %s: use --data-dir DIR or PRIVGRAD_DATA", l.Name)
	}
	dir = written.Path(dir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("fetch: %w", err)
	}
	_, dir, err := l.locate(os.DirFS(dir), dir)
	if err != nil {
		return err
	}
	var needed []Download
	var done, total int64
	for _, d := range all {
		there, err := d.present(dir)
		if err != nil {
			return err
		}
		if !there {
			needed = append(needed, d)
			total += d.Size
		}
	}
	for _, d := range needed {
		part := filepath.Join(dir, partName(d.URL))
		if err := d.download(ctx, part, func(n int64) { progress(done+n, total) }); err != nil {
			return fmt.Errorf("fetch: %s: %w", d.URL, err)
		}
		if err := d.store(part, dir); err != nil {
			return fmt.Errorf("fetch: %s: %w", d.URL, err)
		}
		done += d.Size
	}
	return nil
}

// partName is what a download is called while it is not whole: nobody else's file has the name, and the next call goes on.
func partName(url string) string { return ".privgrad-" + path.Base(url) + ".part" }

// present reports whether all files of a download are there. A file with other
// content is an error, whether it is the user's own or damaged.
func (d Download) present(dir string) (bool, error) {
	all := true
	for _, c := range d.Files {
		data, found, err := readFile(os.DirFS(dir), c.Name, maxFile)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			all = false
		case err != nil || int64(len(data)) != c.Size || c.SHA256 != "" && digest(data) != c.SHA256:
			return false, fmt.Errorf("fetch: %s exists and is not the file published at %s: move it away or choose another directory", filepath.Join(dir, found), d.URL)
		}
	}
	return all, nil
}

// download completes part, which may hold the beginning already, and checks it.
func (d Download) download(ctx context.Context, part string, progress func(int64)) error {
	if _, err := durable.Regular(part); err != nil {
		return fmt.Errorf("%s: %w", part, err)
	}
	out, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()
	have, err := out.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if have < d.Size {
		if have, err = d.transfer(ctx, out, have, progress); err != nil {
			return err
		}
	}
	if have == d.Size {
		if _, err := out.Seek(0, io.SeekStart); err != nil {
			return err
		}
		h := sha256.New()
		if _, err := io.Copy(h, out); err != nil {
			return err
		}
		if fmt.Sprintf("%x", h.Sum(nil)) == d.SHA256 {
			return out.Sync()
		}
	}
	if err := os.Remove(part); err != nil {
		return err
	}
	return errors.New("what came is not the published file (its size or SHA-256 differs) and was discarded: try again, and check the address and any proxy between if it stays so")
}

// transfer appends to out, which holds have bytes, and returns how many it holds
// then, at most one more than wanted.
func (d Download) transfer(ctx context.Context, out *os.File, have int64, progress func(int64)) (int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.URL, nil)
	if err != nil {
		return have, err
	}
	req.Header.Set("Accept-Encoding", "identity") // the digest is of the bytes as stored
	if have > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", have))
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return have, fmt.Errorf("the server was not reached: %w", err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusPartialContent && have > 0 &&
		strings.HasPrefix(resp.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", have)):
	case resp.StatusCode == http.StatusOK:
		have = 0 // no ranges here: from the beginning
		if err := out.Truncate(0); err != nil {
			return 0, err
		}
	case resp.StatusCode == http.StatusRequestedRangeNotSatisfiable:
		return have, errors.Join(errors.New("the server's file ends before the part that is here, which was discarded: try again"), os.Remove(out.Name()))
	default:
		return have, fmt.Errorf("the server answered %s: try later, or get the file elsewhere and put it into the data directory", resp.Status)
	}
	if _, err := out.Seek(have, io.SeekStart); err != nil {
		return have, err
	}
	progress(have)
	buf := make([]byte, 1<<16)
	for have <= d.Size {
		n, err := resp.Body.Read(buf[:min(int64(len(buf)), d.Size+1-have)])
		if _, werr := out.Write(buf[:n]); werr != nil {
			return have, werr
		}
		have += int64(n)
		progress(min(have, d.Size))
		if err != nil && have < d.Size {
			return have, fmt.Errorf("the download broke off (%w): run it again to go on from there", err)
		}
		if err != nil {
			break
		}
	}
	return have, nil
}

func (d Download) store(part, dir string) error {
	if !strings.HasSuffix(d.URL, ".tar.gz") {
		return rename(part, filepath.Join(dir, path.Base(d.URL)))
	}
	if err := d.unpack(part, dir); err != nil {
		return err
	}
	return os.Remove(part)
}

func (d Download) unpack(archive, dir string) error {
	in, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer in.Close()
	z, err := gzip.NewReader(in)
	if err != nil {
		return err
	}
	missing := contents([]Download{d})
	for t := tar.NewReader(z); len(missing) > 0; {
		h, err := t.Next()
		if err != nil {
			return fmt.Errorf("the archive lacks files of the set: %w", err)
		}
		c, wanted := missing[path.Base(h.Name)]
		if !wanted || h.Typeflag != tar.TypeReg {
			continue
		}
		if h.Size != c.Size {
			return fmt.Errorf("%s in the archive has %d bytes, want %d", h.Name, h.Size, c.Size)
		}
		if err := durable.WriteFile(filepath.Join(dir, c.Name), func(w io.Writer) error { _, err := io.Copy(w, t); return err }); err != nil {
			return err
		}
		delete(missing, c.Name)
	}
	return nil
}

// rename also makes the new name durable.
func rename(from, to string) error {
	if _, err := durable.Regular(to); err != nil {
		return fmt.Errorf("%s: %w", to, err)
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(to))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}
