package mutants

// Files that mutants edit, of the real code.
const (
	grantFile      = "lease/grant.go"
	ledgerFile     = "lease/ledger.go"
	lapseFile      = "lease/lapse.go"
	lapsesFile     = "broker/shard/lapse.go"
	policyFile     = "lease/policy.go"
	cutFile        = "lease/cut.go"
	tokensFile     = "lease/tokens.go"
	windowFile     = "lease/window.go"
	generationFile = "lease/generation.go"
	accountFile    = "broker/shard/account.go"
	calendarFile   = "broker/shard/calendar.go"
	batchFile      = "broker/shard/batch.go"
	demandFile     = "broker/shard/demand.go"
	loadFile       = "broker/shard/load.go"
	reportFile     = "broker/shard/report.go"
	resolveFile    = "broker/shard/resolve.go"
	shardFile      = "broker/shard/shard.go"
	sweepFile      = "broker/shard/sweep.go"
	syncFile       = "broker/shard/sync.go"
	budgetFile     = "regional/holder/budget.go"
	holdFile       = "regional/holder/hold.go"
	untilFile      = "regional/holder/until.go"
	answerFile     = "regional/holder/answer.go"
	drawFile       = "regional/holder/draw.go"
	finalFile      = "regional/holder/account.go"
	keyFile        = "regional/holder/key.go"
	managerFile    = "regional/holder/manager.go"
	sendFile       = "regional/holder/send.go"
	registryFile   = "broker/registry.go"
	eraFile        = "broker/record/era.go"
	eraRecords     = "broker/record/records.go"
	restoreFile    = "broker/shard/restore.go"
)

// Files of the simulated world.
const (
	worldBroker  = "simulations/broker.go"
	worldChaos   = "simulations/chaos.go"
	worldCommit  = "simulations/commit.go"
	worldDisk    = "simulations/disk.go"
	worldProcess = "simulations/process.go"
	worldDemand  = "simulations/demand.go"
	worldMirror  = "simulations/mirror.go"
	worldSite    = "simulations/site.go"
)
