// Package journal keeps, on the limiter's own disk, an upper bound on what each of its grants may have
// spent, so that the next start of the same holder can prove how much of a crashed epoch's credit is
// still unspent.
//
// # Words
//
// A holder is one limiter instance: a region and an instance name. Each of its starts has a higher
// epoch, numbered by the broker. Credit is drawn in blocks: [Journal.Draw] makes a block durable before
// any token of it may be spent. The drawn figure of a grant is cumulative, in whole tokens, and only
// ever grows. So at every instant
//
//	spent of a grant <= its drawn figure in the journal
//
// and what was never drawn was never spent. A grant that a recorded epoch has no figure for has drawn 0.
//
// # Life of an epoch
//
// A start opens the file, reads [Journal.LastEpoch] and sends it with its Register request as the epoch
// that it replaces. It then calls [Journal.BindCluster] and [Journal.Begin] with the answer, before its
// first draw. A crash between the answer and Begin leaves an epoch that this journal knows nothing of;
// nothing was drawn in it, but the journal does not prove so. A holder avoids the question by asking for
// no credit until Begin has returned.
//
// [Journal.Epochs] has the epochs of earlier starts. Their figures go to the broker as final accounts;
// once every shard has confirmed an epoch's account, [Journal.Finish] drops it. Only the epoch that this
// [Journal] value began last can be drawn on: a late goroutine of an older epoch, whose account may
// already be on its way, is refused. [Journal.Forget] drops the figures of grants whose close the broker
// has confirmed, which keeps the file as small as the set of live grants.
//
// # What it proves
//
// An account from a journal says of a crashed epoch: at most this was spent. It proves only epochs whose
// start it recorded before their first draw. A file that is new, or of another disk, has no record of
// the epoch and proves nothing about it; that credit stays reserved.
//
// The proof assumes storage that never goes back, and one lock over all copies of the file. Each epoch
// has a write counter, raised by one in every transaction that touches the epoch, and part of that
// transaction. The holder tells it to the broker, which keeps the highest one per holder and epoch and
// compares it when it applies the account: a restored older copy of the file has a lower counter than
// the one told, and is refused. The comparison is the broker's; this package only counts. It catches
// copies that lag what was told, so how much may slip through depends on how it is told:
//
//	journal: block    (default) a block may be spent once Draw has returned; the counter is told with the
//	                  next request. A copy made after the last one told is caught only if it lags that.
//	journal: confirm  a block may be spent once the broker has acknowledged its counter. For disks that
//	                  may be restored or cloned while the holder is down.
//	journal: off      nothing is kept and nothing is proved: credit of a crashed epoch stays reserved until
//	                  an operator attests that its process has ended.
//
// The three modes are the manager's business and differ in nothing here.
//
// What it does not prove: a live clone (a snapshot of disk and memory that runs on beside its original,
// or two hosts that mount copies of one volume) has a counter as high as the original's, and a lock
// on one copy says nothing about the other. Nor does it hold on a file system whose locks or fsync do
// not work, or when the file is deleted or replaced under a running limiter. Do not place it on a shared
// or replicated volume.
//
// # Failure
//
// After an error while a transaction is being committed its outcome is unknown: the disk may hold either
// the figures before it or after it. The journal then refuses everything but [Journal.LastEpoch] and
// [Journal.Close], with that first error, wrapped in [ErrFailed]. The holder must treat the block of a
// failed Draw as drawn (it may be on disk) and must not spend it (it may not be). Closing and opening
// again settles the question, in a new epoch.
//
// A damaged file is refused with [ErrCorrupt] and never deleted, repaired or replaced by this package.
// Damage is looked for in four places, at every opening: the page structure, read by plain reads before
// anything is mapped into memory, since following a damaged page through a mapping can end the process;
// bbolt's own consistency check, for files up to 64 MiB; a checksum over each record and its place in
// the file; and a digest over all of them, so that a record that is lost, or an intact older page in the
// place of a newer one, shows as well. bbolt would carry on from the previous transaction when the
// newer of its two header pages is damaged. This package does not, since the previous figures are too low;
// header pages are written within one disk sector, so an ordinary crash does not damage them.
//
// # Storage
//
// One bbolt file, mode 0600, under an exclusive lock for as long as it is open. One Draw is one
// transaction, with two fsyncs (bbolt's data pages, then its header page), however many grants it has.
// Values are big-endian, bbolt's own pages in the byte order of the host. The file does not shrink; pages
// that an ended epoch leaves are used again.
//
// The list of free pages is synced, although rebuilding it at each opening would save a page per commit:
// bbolt rebuilds it in a goroutine of its own, where a fault on a damaged page cannot be caught. It is kept
// as a map, which stays fast when the end of a large epoch leaves many free pages.
//
// All methods of [Journal] may be called concurrently. They run one at a time, so a call may wait for
// another's fsync; a caller with many grants to draw passes them to one Draw.
package journal
