package envoydoctor

import "fmt"

// strays looks at rate limit filters that no listener led to: such as those in
// composite filters, in clusters, or among what was discovered and is not in use.
func (d *doctor) strays(v any, path string) {
	switch v := v.(type) {
	case []any:
		for i, item := range v {
			d.strays(item, fmt.Sprintf("%s[%d]", path, i))
		}
	case object:
		if len(v) == 0 || d.seen[identity(v)] {
			return
		}
		d.stray(v, path)
		for _, name := range names(v) {
			d.strays(v[name], path+"."+name)
		}
	}
}

func (d *doctor) stray(o object, path string) {
	name, body := typed(o)
	if body == nil || d.seen[identity(body)] {
		return
	}
	switch name {
	case typeLimiter:
		l := d.limiter(object{}, body, path)
		l.finish(d)
		d.unreadable(path, "a rate limit filter within something else: on which routes it is asked, and when, is not known here")
	case typeNetwork, typeThrift:
		d.plainLimiter(body, path)
	}
}
