package ledger

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// lockTimeout outlasts another process's Read or Open, which hold a shared lock
// for a moment.
const lockTimeout = 100 * time.Millisecond

// errInterrupted marks a call into bbolt that did not return.
var errInterrupted = errors.New("the storage engine was interrupted")

// A store is a locked file whose every page has been checked.
type store struct {
	db   *bbolt.DB
	file fs.FileInfo // which file it is
	rec  record
}

func options() *bbolt.Options {
	return &bbolt.Options{
		Timeout:      lockTimeout,
		PageSize:     pageSize, // the same bytes on every machine
		FreelistType: bbolt.FreelistArrayType,
		NoStatistics: true,
	}
}

// openStore locks the file at path, shared when readOnly, and checks it. Opening
// with readOnly makes bbolt follow no page but the two meta pages.
func openStore(path string, readOnly bool) (s store, err error) {
	var f *os.File
	opt := options()
	opt.ReadOnly = readOnly
	opt.OpenFile = func(name string, flag int, perm fs.FileMode) (_ *os.File, err error) {
		if f, err = os.OpenFile(name, flag&^os.O_CREATE, perm); err != nil {
			return nil, err
		}
		if s.file, err = f.Stat(); err == nil && s.file.Size() == 0 {
			err = corrupt("the file is empty") // bbolt would start it afresh
		}
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return f, nil
	}
	err = guard(func() error {
		s.db, err = bbolt.Open(path, 0o644, opt)
		if err != nil {
			return openError(err)
		}
		image, err := io.ReadAll(io.NewSectionReader(f, 0, maxSize+1))
		if err == nil {
			s.rec, err = verify(image)
		}
		if err != nil {
			return errors.Join(err, s.db.Close())
		}
		return nil
	})
	return s, err
}

// openError says what bbolt's refusal means for a ledger.
func openError(err error) error {
	var system syscall.Errno
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return fmt.Errorf("%w by another run: wait until that run ends or stop it, then try again; do not delete the file", ErrInUse)
	case errors.Is(err, ErrCorrupt), errors.As(err, &system):
		return err
	default:
		return corrupt("%v", err)
	}
}

// create makes a ledger with nothing charged. Its name appears only when the file
// is whole, so that a crash leaves none that would have to be called damaged.
func create(path string, h Header) error {
	if err := h.validate(); err != nil {
		return err
	}
	temp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new-"+rand.Text())
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer os.Remove(temp)
	if err := f.Close(); err != nil {
		return err
	}
	err = guard(func() error {
		db, err := bbolt.Open(temp, 0o644, options())
		if err != nil {
			return err
		}
		return errors.Join(put(db, &record{Header: h}, firstTx), db.Close())
	})
	if err != nil {
		return err
	}
	// Unlike a rename, a link never replaces the ledger of a run that started meanwhile.
	if err := os.Link(temp, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// put writes rec durably as transaction tx. bbolt falls back to the transaction
// before when the last one's meta page goes bad, which the number would show.
func put(db *bbolt.DB, rec *record, tx uint64) error {
	return db.Update(func(t *bbolt.Tx) error {
		if uint64(t.ID()) != tx {
			return corrupt("transaction %d stands where %d was written", t.ID(), tx)
		}
		rec.tx = tx
		b, err := t.CreateBucketIfNotExists([]byte(bucketName))
		if err != nil {
			return err
		}
		return b.Put([]byte(recordName), rec.encode())
	})
}

// guard turns what bbolt does on a bad page, a panic or a memory fault, into an
// error.
func guard(call func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("%w: %w", errInterrupted, corrupt("%v", reason))
		}
	}()
	return call()
}

func syncDir(path string) error {
	if runtime.GOOS == "windows" {
		return nil // directories cannot be synced there
	}
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
