package etcdstore

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A directory is looked at, and stays as it is.
func TestHoldsStore(t *testing.T) {
	made := func(t *testing.T, names ...string) string {
		dir := t.TempDir()
		for _, name := range names {
			if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	ours, _ := written(t)
	file := filepath.Join(t.TempDir(), "file")
	write(t, file, "x")
	for name, tc := range map[string]struct {
		dir  string
		want error
		text string
	}{
		"one of ours":         {dir: ours},
		"no such directory":   {dir: filepath.Join(t.TempDir(), "gone"), want: os.ErrNotExist},
		"empty":               {dir: made(t), want: ErrNoStore},
		"other files":         {dir: made(t, "photos"), want: ErrNoStore},
		"only the marker":     {dir: made(t, markerName), want: ErrNoStore},
		"only the data":       {dir: made(t, "member"), want: ErrNoStore, text: markerName},
		"a first start":       {dir: made(t, markerName, "member", startingName), want: ErrNoStore, text: "cut off"},
		"a file":              {dir: file, want: errAny, text: "not a directory"},
		"a store one further": {dir: filepath.Dir(ours), want: ErrNoStore},
	} {
		t.Run(name, func(t *testing.T) {
			before, _ := os.ReadDir(tc.dir)
			err := HoldsStore(tc.dir)
			if tc.want == errAny && err == nil || tc.want != errAny && !errors.Is(err, tc.want) || err != nil && !strings.Contains(err.Error(), tc.text) {
				t.Errorf("error %v, want %v with %q", err, tc.want, tc.text)
			}
			if after, _ := os.ReadDir(tc.dir); len(after) != len(before) {
				t.Errorf("there are %d entries, and were %d", len(after), len(before))
			}
		})
	}
}

// errAny stands for any error.
var errAny = errors.New("any")
