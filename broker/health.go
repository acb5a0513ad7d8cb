package broker

import (
	"context"

	"connectrpc.com/connect"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// ShowCluster implements tokenleasev1connect.AdminHandler. Asked by another broker, it
// tells of this one alone.
func (s adminService) ShowCluster(ctx context.Context, req *connect.Request[pb.ShowClusterRequest]) (*connect.Response[pb.ShowClusterResponse], error) {
	b := s.b
	resp := &pb.ShowClusterResponse{
		ClusterId: b.cluster.ID, Shards: b.cluster.Shards, BrokerId: b.cfg.ID,
		UnixMs: b.cfg.Clock.Now().UnixMilli(), ProgramVersion: b.cfg.ProgramVersion,
	}
	if forwarded(req.Header()) {
		return connect.NewResponse(resp), nil
	}
	if err := b.view(ctx).showCluster(ctx, resp); err != nil {
		return nil, wireError(err)
	}
	resp.Store = b.storeStatus(ctx)
	return connect.NewResponse(resp), nil
}

func (v *view) showCluster(ctx context.Context, resp *pb.ShowClusterResponse) error {
	cluster, err := v.era()
	if err != nil {
		return err
	}
	owners, err := v.owners()
	if err != nil {
		return err
	}
	brokers, err := v.brokers()
	if err != nil {
		return err
	}
	owned := map[string]uint32{}
	for _, owner := range owners {
		owned[owner.BrokerID]++
	}
	resp.Generation, resp.Revision = cluster.Generation, v.revision
	for _, other := range v.b.askBrokers(ctx, brokers) {
		other.Shards = owned[other.GetBrokerId()]
		resp.Brokers = append(resp.Brokers, other)
	}
	set, err := v.policySet()
	if err == nil {
		resp.PolicyVersion = set.Version
	}
	return err
}

// askBrokers asks each live broker how it is. This one is there, without a question.
func (b *Broker) askBrokers(ctx context.Context, brokers []record.Broker) []*pb.BrokerStatus {
	byID := map[string]*pb.BrokerStatus{}
	all := make([]*pb.BrokerStatus, 0, len(brokers))
	for _, other := range brokers {
		status := &pb.BrokerStatus{BrokerId: other.ID, Url: other.URL}
		if other.ID == b.cfg.ID {
			status.Reached, status.UnixMs, status.ProgramVersion = true, b.cfg.Clock.Now().UnixMilli(), b.cfg.ProgramVersion
		}
		byID[other.ID] = status
		all = append(all, status)
	}
	for _, said := range askOthers(ctx, b, brokers, func(ctx context.Context, p peer) (*connect.Response[pb.ShowClusterResponse], error) {
		return p.admin.ShowCluster(ctx, passOn(b, &pb.ShowClusterRequest{}))
	}) {
		status := byID[said.broker.ID]
		if said.err == nil && said.answer.Msg.GetBrokerId() == said.broker.ID { // else another answers at its address
			status.Reached, status.RoundTripNs = true, int64(said.took)
			status.UnixMs, status.ProgramVersion = said.answer.Msg.GetUnixMs(), said.answer.Msg.GetProgramVersion()
		}
	}
	return all
}

// storeStatus is how the store is, if it tells.
func (b *Broker) storeStatus(ctx context.Context) *pb.StoreStatus {
	teller, ok := b.cfg.Store.(store.HealthTeller)
	if !ok {
		return &pb.StoreStatus{}
	}
	ctx, cancel := context.WithTimeout(ctx, peerPatience)
	defer cancel()
	health := teller.Health(ctx)
	status := &pb.StoreStatus{Known: true, Alarms: health.Alarms}
	for _, m := range health.Members {
		status.Members = append(status.Members, &pb.StoreMember{
			Name: m.Name, Reached: m.Reached, Version: m.Version, SizeBytes: m.SizeBytes, QuotaBytes: m.QuotaBytes, Leader: m.Leader, Problem: m.Problem,
		})
	}
	return status
}
