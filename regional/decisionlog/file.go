package decisionlog

import (
	"bytes"
	"fmt"
	"os"
	"slices"
)

// longestLine is how far back the end of a file is looked for that a crash has torn.
const longestLine = 1 << 20

// file is a file that is appended to and bounded. It belongs to one goroutine.
type file struct {
	path string
	most int64

	open *os.File
	size int64
	torn bool // it may end within a line
}

// append writes whole lines, or none that could be taken for whole: after an error
// the file is cut to what it had, or else the next line begins on a new one. header
// goes before the first line of a file, or of a start.
//
// After an error the file is opened anew: it may have been replaced.
func (f *file) append(lines, header []byte) error {
	if f.open != nil && f.size > 0 && f.size+int64(len(lines)) > f.most {
		if err := f.rotate(); err != nil {
			return err
		}
	}
	if f.open == nil {
		if err := f.start(); err != nil {
			return err
		}
		lines = slices.Concat(header, lines)
	}
	if f.torn {
		lines = append([]byte{'\n'}, lines...)
	}
	if _, err := f.open.Write(lines); err != nil {
		f.torn = f.open.Truncate(f.size) != nil
		f.close()
		return err
	}
	f.size += int64(len(lines))
	f.torn = false
	return nil
}

// start opens the file behind what is there.
func (f *file) start() error {
	open, err := os.OpenFile(f.path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	info, err := open.Stat()
	if err != nil {
		open.Close()
		return err
	}
	f.open, f.size = open, info.Size()
	f.mend()
	return nil
}

// mend cuts off the line in the middle of which a crash has ended.
func (f *file) mend() {
	f.torn = false
	if f.size == 0 {
		return
	}
	tail := make([]byte, min(f.size, longestLine))
	_, err := f.open.ReadAt(tail, f.size-int64(len(tail)))
	whole := f.size - int64(len(tail)) + int64(bytes.LastIndexByte(tail, '\n')) + 1
	switch {
	case err != nil:
		f.torn = true
	case whole < f.size:
		if f.torn = f.open.Truncate(whole) != nil; !f.torn {
			f.size = whole
		}
	}
}

// rotate puts the file aside, in place of the one before.
func (f *file) rotate() error {
	f.close()
	if err := os.Rename(f.path, f.path+".1"); err != nil {
		return fmt.Errorf("it has reached its bound and cannot be put aside: %w", err)
	}
	return nil
}

func (f *file) close() {
	if f.open != nil {
		f.open.Close()
		f.open = nil
	}
}
