//! The list of all points: their names, where they are, what they stand for, and what follows when
//! the step fails.

/// What an error at a point leads to. `hence serve` is meant, under work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnError {
    /// Nothing can fail there.
    Never,
    /// The process ends with this code, and acknowledges nothing more. At the start, when nothing
    /// is at stake yet, it ends with 69 or 74.
    Ends(i32),
    /// It is tried again, or done without: nobody outside notices.
    GoesOn,
}

use OnError::{Ends, GoesOn, Never};

macro_rules! points {
    ($($point:ident $name:literal $on_error:expr, $stands_for:literal;)*) => {
        /// A step at which the program can be made to fail.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Point {
            $(#[doc = $stands_for] $point,)*
        }

        impl Point {
            /// All of them, in the order of the list.
            pub const ALL: [Point; [$($name),*].len()] = [$(Point::$point),*];

            /// How it is called in `HENCE_FAIL` and in the documents.
            pub const fn name(self) -> &'static str {
                match self { $(Point::$point => $name,)* }
            }

            /// What an error there leads to.
            pub const fn on_error(self) -> OnError {
                match self { $(Point::$point => $on_error,)* }
            }

            /// The moment it stands for.
            pub const fn stands_for(self) -> &'static str {
                match self { $(Point::$point => $stands_for,)* }
            }
        }
    };
}

points! {
    // The disk: before each kind of call, by kind of file (store-embedded, kv/failing_disk.rs).
    DiskWrite "disk.write" Ends(74), "any write, to whatever file";
    DiskSync "disk.sync" Ends(74), "any sync of a file";
    DirCreate "dir.create" Ends(69), "the data directory is made, if it is not there";
    DirLock "dir.lock" Ends(69), "the data directory is locked";
    DirList "dir.list" Ends(69), "the data directory is listed";
    DirSync "dir.sync" Ends(74), "names are made durable";
    LogCreate "log.create" Ends(74), "a segment is made";
    LogReserve "log.reserve" Ends(74), "space is reserved for a segment";
    LogTruncate "log.truncate" Ends(74), "the length of a segment is set";
    LogFill "log.fill" Ends(74), "a segment is filled with zeros";
    LogFillSync "log.fill_sync" Ends(74), "a segment is made durable before it has its name";
    LogRename "log.rename" Ends(74), "a segment gets its name";
    LogRecycle "log.recycle" Ends(74), "an old segment is taken to be made new";
    LogOpen "log.open" Ends(69), "a segment is opened";
    LogRead "log.read" Ends(69), "a segment is read";
    LogWrite "log.write" Ends(74), "a frame is written";
    LogSync "log.sync" Ends(74), "a frame is made durable";
    LogRemove "log.remove" Ends(74), "a segment that is not needed is removed";
    TableCreate "table.create" Ends(74), "a table is made";
    TableReserve "table.reserve" Ends(74), "space is reserved for a table";
    TableWrite "table.write" Ends(74), "blocks of a table are written";
    TableTruncate "table.truncate" Ends(74), "the length of a table is set";
    TableSync "table.sync" Ends(74), "a table is made durable";
    TableRename "table.rename" Ends(74), "a table gets its name";
    TableOpen "table.open" Ends(69), "a table is opened";
    TableRead "table.read" Ends(69), "a table is read";
    TableRemove "table.remove" Ends(74), "a table that was merged into another is removed";
    ManifestCreate "manifest.create" Ends(74), "a new manifest is made";
    ManifestWrite "manifest.write" Ends(74), "a new manifest is written";
    ManifestSync "manifest.sync" Ends(74), "a new manifest is made durable";
    ManifestRename "manifest.rename" Ends(74), "a new manifest takes the place of the old one";
    ManifestRead "manifest.read" Ends(69), "the manifest is read";
    LeftoverRemove "leftover.remove" Ends(69), "a file that a crash left behind is removed";
    // The embedded engine (store-embedded, kv/).
    CommitStart "commit.start" Never, "a batch is there, nothing of it is written";
    CommitApply "commit.apply" Never, "a frame is durable and not visible yet";
    CommitDone "commit.done" Never, "a frame is visible and nobody was told";
    Freeze "memtable.freeze" Never, "a full memtable is about to be set aside";
    FlushStart "flush.start" Never, "a memtable is about to be written out";
    FlushInstall "flush.install" Never, "the table is whole, the manifest does not name it";
    FlushDone "flush.done" Never, "the manifest names the table, its log is not let go of";
    MergeStart "merge.start" Never, "tables are about to be merged";
    MergeInstall "merge.install" Never, "the merged table is whole, the manifest does not name it";
    MergeDone "merge.done" Never, "the manifest names the merged table, its parts are still there";
    SegmentSwitch "segment.switch" Never, "the log goes on in the next segment";
    OpenLocked "open.locked" Never, "the directory is locked, nothing is read";
    OpenTables "open.tables" Never, "the manifest is read, no table is open";
    OpenReplay "open.replay" Never, "the tables are open, the log is not read";
    OpenTail "open.tail" Never, "the log is read, its end is not settled";
    OpenClean "open.clean" Never, "the log's end is settled, leftovers are still there";
    // The library (hence).
    StartAcquired "start.acquired" Never, "the shard has a new epoch, nothing is recovered";
    StartRecovered "start.recovered" Never, "the shard is recovered, no thread runs";
    DriverHandle "driver.handle" Never, "a message is about to be decided upon";
    DriverPassOn "driver.pass_on" Never, "decided, and not passed to whoever commits";
    LineCommit "line.commit" GoesOn, "facts are about to be committed";
    LineCommitted "line.committed" GoesOn, "facts are durable, nobody was told";
    LineReleased "line.released" Never, "answers and deliveries that waited have left";
    DispatchSend "dispatch.send" Never, "a delivery is about to leave";
    DispatchSent "dispatch.sent" Never, "a receiver has answered, nothing is reported";
    ReadFind "read.find" GoesOn, "jobs are about to be looked up by name";
    ReadLoad "read.load" GoesOn, "a page of the window or of a ledger is about to be read";
    ReadSweep "read.sweep" GoesOn, "finished jobs are about to be swept";
    StopDrain "stop.drain" Never, "asked to end, deliveries are under way";
    StopDrained "stop.drained" Never, "the last delivery has ended, threads still run";
    StopRelease "stop.release" Never, "the threads have ended, the shard is not given up";
    // The server (server) and the command (cli).
    HttpSubmit "http.submit" Never, "a submission is read and not asked for";
    HttpSubmitted "http.submitted" Never, "a submission is durable and not answered";
    HttpLease "http.lease" Never, "a worker's wish is read and not asked for";
    HttpLeased "http.leased" Never, "a lease is durable and its worker was not told";
    HttpAck "http.ack" Never, "a worker's success is read and not asked for";
    HttpAcked "http.acked" Never, "a success is recorded and its worker was not told";
    ServeOpened "serve.opened" Never, "the store is open, nothing was started";
    ServeReady "serve.ready" Never, "everything runs, nobody was told where";
    ServeDrain "serve.drain" Never, "no new connection is taken, requests are under way";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_is_in_the_document_and_nothing_else() {
        let document = include_str!("../../../docs/internals/faults.md");
        let names_a_point = |line: &&str| {
            let name = line.strip_prefix("| `").and_then(|rest| rest.split_once("` |"));
            name.is_some_and(|(name, _)| name.contains('.'))
        };
        let rows: Vec<&str> = document.lines().filter(names_a_point).collect();
        let expected: Vec<String> = Point::ALL.into_iter().map(row).collect();
        assert_eq!(rows, expected, "put these rows into the document:\n{}", expected.join("\n"));
    }

    fn row(point: Point) -> String {
        let on_error = match point.on_error() {
            Never => "nothing can fail there".to_owned(),
            Ends(code) => format!("the process ends with {code}"),
            GoesOn => "it goes on".to_owned(),
        };
        format!("| `{}` | {} | {on_error} |", point.name(), point.stands_for())
    }

    #[test]
    fn names_are_unlike_each_other() {
        for (index, point) in Point::ALL.iter().enumerate() {
            assert_eq!(*point as usize, index, "the order of the list is that of the numbers");
            let same = Point::ALL.iter().filter(|other| other.name() == point.name()).count();
            assert_eq!(same, 1, "{}", point.name());
        }
        assert!(Point::ALL.len() >= 40, "only {} points", Point::ALL.len());
    }
}
