package envoydoctor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// MaxFileBytes is the largest configuration that is read.
const MaxFileBytes = 256 << 20

// maxDepth is how deep a configuration may be nested.
const maxDepth = 500

// object is a message of the configuration, by the names of its fields.
type object = map[string]any

// parse reads JSON or YAML into objects, lists and scalars.
func parse(data []byte) (object, error) {
	if len(data) > MaxFileBytes {
		return nil, fmt.Errorf("has %d bytes: at most %d are read", len(data), MaxFileBytes)
	}
	trimmed := bytes.TrimSpace(data)
	if len(trimmed) == 0 {
		return nil, errors.New("is empty: want a configuration of Envoy, or what its admin endpoint /config_dump says")
	}
	var top any
	var err error
	if trimmed[0] == '{' || trimmed[0] == '[' {
		top, err = parseJSON(trimmed)
	}
	if top == nil && trimmed[0] != '[' { // flow style is YAML as well
		fromYAML, yamlErr := parseYAML(data)
		if yamlErr != nil {
			return nil, errors.Join(err, yamlErr)
		}
		top, err = fromYAML, nil
	}
	if err != nil {
		return nil, err
	}
	doc, ok := top.(object)
	if !ok {
		return nil, errors.New("is no configuration: want an object at the top")
	}
	return doc, nil
}

func parseJSON(data []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	value, err := jsonValue(decoder, 0)
	if err != nil {
		return nil, fmt.Errorf("is not JSON, at byte %d: %w", decoder.InputOffset(), err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("is not JSON, at byte %d: more follows the configuration", decoder.InputOffset())
	}
	return value, nil
}

// jsonValue reads the next value. The package's own would take the last of two
// fields of one name, where Envoy takes neither.
func jsonValue(decoder *json.Decoder, depth int) (any, error) {
	token, err := decoder.Token()
	if err != nil {
		return nil, err
	}
	if depth > maxDepth {
		return nil, fmt.Errorf("it is nested deeper than %d", maxDepth)
	}
	switch token {
	case json.Delim('{'):
		return jsonObject(decoder, depth)
	case json.Delim('['):
		all := []any{}
		for decoder.More() {
			value, err := jsonValue(decoder, depth+1)
			if err != nil {
				return nil, err
			}
			all = append(all, value)
		}
		_, err := decoder.Token()
		return all, err
	}
	return token, nil
}

func jsonObject(decoder *json.Decoder, depth int) (any, error) {
	all := object{}
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		name, _ := token.(string)
		if _, twice := all[name]; twice {
			return nil, fmt.Errorf("the field %.80q stands twice", name)
		}
		if all[name], err = jsonValue(decoder, depth+1); err != nil {
			return nil, err
		}
	}
	_, err := decoder.Token()
	return all, err
}

func parseYAML(data []byte) (any, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var first, second yaml.Node
	if err := decoder.Decode(&first); err != nil {
		return nil, fmt.Errorf("is not YAML: %w", err)
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, errors.New("has a second document: Envoy reads one")
	}
	if err := dropIgnored(&first, 0); err != nil {
		return nil, err
	}
	var top any
	if err := first.Decode(&top); err != nil { // refuses doubled fields and bombs of aliases
		return nil, fmt.Errorf("is not YAML: %w", err)
	}
	return top, nil
}

// dropIgnored takes out what is tagged !ignore, which Envoy passes over: templates
// for anchors. It makes the names of all fields text.
func dropIgnored(node *yaml.Node, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("is nested deeper than %d", maxDepth)
	}
	for _, child := range node.Content {
		if err := dropIgnored(child, depth+1); err != nil {
			return err
		}
	}
	if node.Kind != yaml.MappingNode {
		return nil
	}
	kept := node.Content[:0:0]
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := node.Content[i]
		if key.Tag == "!ignore" {
			continue
		}
		if key.Kind != yaml.ScalarNode {
			return fmt.Errorf("has a field in line %d whose name is no text", key.Line)
		}
		if key.Value != "<<" {
			key.Tag = "!!str" // also one that looks like a number
		}
		kept = append(kept, key, node.Content[i+1])
	}
	node.Content = kept
	return nil
}
