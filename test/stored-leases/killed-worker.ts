import { openSqlite } from "../../src/entry/sqlite.ts";
import { FaultStore } from "../../src/testing/fault-store.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { CHANGES } from "./killed-changes.ts";
import { openStoredLeases, T0 } from "./kit.ts";

// A process that changes a lease and kills itself at a call to its store, or at the answer to it: FILE LEASE CHANGE CALL.

const [file = "", leaseId = "", name = "", at = ""] = process.argv.slice(2);
let calls = -1;
const line = new FaultStore(openSqlite({ file }), {
  pause: async () => {
    if (calls < 0) return;
    if (calls++ === Number(at)) process.kill(process.pid, "SIGKILL");
  },
});
const { storedLeases } = await openStoredLeases(line, new SimulatedClock(T0));
calls = 0;
await CHANGES.find((change) => change.name === name)?.send(storedLeases, leaseId);
process.exit(0);
