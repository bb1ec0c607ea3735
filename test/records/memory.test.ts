import { RecordTable } from "../kit/record-table.ts";
import { describeRecords } from "./without-takes.ts";

describeRecords("records in memory", async () => ({ records: new RecordTable(), close: async () => {} }));
