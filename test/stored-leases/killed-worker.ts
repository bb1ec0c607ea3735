import { openSqlite } from "../../src/entry/sqlite.ts";
import { FaultStore } from "../../src/testing/fault-store.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { openDesk, T0 } from "./desk-kit.ts";
import { CHANGES } from "./killed-changes.ts";

// A process that changes a lease and kills itself at a call to its store, or at the answer to it: FILE LEASE CHANGE CALL.

const [file = "", leaseId = "", name = "", at = ""] = process.argv.slice(2);
let calls = -1;
const line = new FaultStore(openSqlite({ file }), {
  pause: async () => {
    if (calls < 0) return;
    if (calls++ === Number(at)) process.kill(process.pid, "SIGKILL");
  },
});
const { desk } = await openDesk(line, new SimulatedClock(T0));
calls = 0;
await CHANGES.find((change) => change.name === name)?.send(desk, leaseId);
process.exit(0);
