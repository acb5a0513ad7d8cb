package plainconfig

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/tokenlease/tokenlease/proto/jsonbody"
	"github.com/tokenlease/tokenlease/proto/policyfile"
	"github.com/tokenlease/tokenlease/proto/strictyaml"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// defaultBy is who is recorded where neither a certificate nor the request says.
const defaultBy = "plain-config"

// planRequest is a request that changes something: of a plan, or of which plan an
// account is on.
type planRequest struct {
	plan    string
	account string // assigned to the plan; empty: the plan itself is meant
	limits  []*pb.Policy

	because   string
	by        string
	ifVersion int64
}

// apply is the request to the Admin service that changes nothing yet.
func (r planRequest) apply() *pb.ApplyPoliciesRequest {
	return &pb.ApplyPoliciesRequest{AppliedBy: r.by, Because: r.because, IfVersion: r.ifVersion}
}

// bodyOf reads the body of a request. Everything that is wrong with it is told.
func bodyOf(rw http.ResponseWriter, req *http.Request) (planRequest, error) {
	r := planRequest{by: defaultBy}
	if _, err := queryOf(req); err != nil {
		return r, err
	}
	body, err := jsonbody.Read(rw, req, MaxBodyBytes)
	if err != nil {
		return r, err
	}
	p := strictyaml.New("body")
	top := p.JSON(body)
	if top != nil {
		refusePayment(p, top, "")
	}
	if p.Err() == nil {
		r.read(p, top)
	}
	return r, p.Err()
}

// read reads the fields.
func (r *planRequest) read(p *strictyaml.Parser, top *strictyaml.Node) {
	isMapping := p.Mapping(top, "", []strictyaml.Field{
		{Name: "plan", Required: true, Read: func(v *strictyaml.Node, at string) { r.plan = policyfile.ReadPlanName(p, v, at) }},
		{Name: "limits", Read: func(v *strictyaml.Node, at string) {
			if strictyaml.IsList(v) && len(v.Content) == 0 {
				return // on purpose: a plan that leaves everything to the policies for everybody
			}
			r.limits = policyfile.ReadPolicies(p, v, at)
		}},
		{Name: "account", Read: func(v *strictyaml.Node, at string) { r.account = policyfile.ReadAccountName(p, v, at) }},
		{Name: "because", Read: func(v *strictyaml.Node, at string) { r.because = p.Text(v, at, pb.MaxBecauseBytes) }},
		{Name: "by", Read: func(v *strictyaml.Node, at string) { r.by = p.Name(v, at, pb.MaxPersonBytes, "ann") }},
		{Name: "if-version", Read: func(v *strictyaml.Node, at string) { r.ifVersion = p.Number(v, at, "") }},
	})
	if !isMapping {
		return
	}
	switch account, limits := strictyaml.Lookup(top, "account"), strictyaml.Lookup(top, "limits"); {
	case account != nil && limits != nil:
		p.Faultf(top.Line, "limits", "are of a plan, and account assigns an account to it: want one of them")
	case account == nil && limits == nil:
		p.Faultf(top.Line, "", "the body names a plan alone: want its limits, or the account to assign to it")
	}
}

// removalOf reads the parameters of a removal. It has no body.
func removalOf(req *http.Request) (planRequest, error) {
	if req.ContentLength != 0 {
		return planRequest{}, &jsonbody.Rejection{
			Status: http.StatusBadRequest, Detail: "a body is not wanted here: name the plan or the account in the query, as in " + PlanPath + "?plan=premium",
		}
	}
	q, err := queryOf(req, "plan", "account", "because", "by")
	if err != nil {
		return planRequest{}, err
	}
	r := planRequest{plan: q["plan"], account: q["account"], because: q["because"], by: q["by"]}
	if r.by == "" {
		r.by = defaultBy
	}
	if (r.plan == "") == (r.account == "") {
		return r, &jsonbody.Rejection{
			Status: http.StatusBadRequest, Detail: "want one of the parameters plan, to delete a plan, and account, to take an account off its plan",
		}
	}
	return r, nil
}

// queryOf reads the parameters of a request, each of which stands once at the most.
func queryOf(req *http.Request, known ...string) (map[string]string, error) {
	values, err := url.ParseQuery(req.URL.RawQuery)
	if err != nil {
		return nil, &jsonbody.Rejection{Status: http.StatusBadRequest, Detail: "the query is not understood: want parameters such as ?operation=report.create"}
	}
	q := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		detail := ""
		switch {
		case isPayment(name):
			detail = noPayment
		case len(known) == 0:
			detail = "is unknown: no parameters are wanted here"
		case !slices.Contains(known, name):
			detail = "is unknown: want " + strings.Join(known, ", ")
		case len(values[name]) > 1:
			detail = "stands twice"
		}
		if detail != "" {
			return nil, &jsonbody.Rejection{Status: http.StatusBadRequest, Detail: fmt.Sprintf("the parameter %s: %s", strictyaml.Quote(name), detail)}
		}
		q[name] = values[name][0]
	}
	return q, nil
}
