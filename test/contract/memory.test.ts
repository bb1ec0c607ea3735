import { openMemory } from "../../src/adapters/memory/store.ts";
import { createCalendar } from "../../src/adapters/system/calendar.ts";
import { systemTurns } from "../../src/adapters/system/clock.ts";
import { FILE_RETENTION } from "../../src/domain/config/retention.ts";
import { describeStore } from "../kit/contract.ts";

const calendar = createCalendar();

describeStore("memory", () => {
  const store = openMemory(calendar, FILE_RETENTION, systemTurns);
  return { store, close: () => store.close() };
});
