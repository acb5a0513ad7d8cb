// Package strictyaml reads YAML files of which nothing is guessed.
//
// YAML readers turn 1.5 into 1, 010 into 8 and nothing into 0, and a mistyped
// field into no field at all. Here every number is a plain decimal, every length
// of time has its unit, every field is known and stands once, and nothing refers
// to another place of the file.
//
// A [Parser] reads one file. Its methods read one value each, record what is
// wrong with it, and go on, so that all faults of a file are told at once:
//
//	p := strictyaml.New("shop.yaml")
//	if top := p.Document(data, "an opening time"); top != nil {
//		p.Mapping(top, "", []strictyaml.Field{
//			{Name: "opens", Required: true, Read: func(v *strictyaml.Node, at string) {
//				opens = p.Duration(v, at, 0, 24*time.Hour)
//			}},
//		})
//	}
//	return opens, p.Err()
//
// What a method returns after a fault is of the right type and means nothing.
package strictyaml
