import { useSettled } from "./parts.tsx";
import { useLoaded, useSession } from "./session.tsx";

interface Resets {
  readonly tz: string;
  readonly problem?: string;
  readonly nextMs: readonly number[];
}

/** When a quota would be full again, while it is being typed. */
export function NextReset({ cron, tz }: { readonly cron: string; readonly tz: string }) {
  const { api, path } = useSession();
  const asked = useSettled(JSON.stringify([cron, tz]), 250);
  const { value } = useLoaded<Resets>(
    (signal) => {
      const [pattern, zone] = JSON.parse(asked) as [string, string];
      return api.get(`${path}/limits/resets`, { cron: pattern === "" ? "?" : pattern, tz: zone }, signal);
    },
    [asked],
    "beside",
  );
  if (value === undefined) return null;
  const [next, ...others] = value.nextMs.map((ms) => instantWords(ms, value.tz));
  return (
    <p class={value.problem === undefined ? "next-reset quiet" : "next-reset bad-text"} data-testid="limit-next-reset">
      {value.problem ??
        (next === undefined ? "It never resets." : `Next reset: ${next} (${value.tz}); then ${others.join(", ")}`)}
    </p>
  );
}

function instantWords(ms: number, timeZone: string): string {
  const date = { weekday: "short", day: "numeric", month: "short", year: "numeric" } as const;
  return new Intl.DateTimeFormat("en-GB", { ...date, hour: "2-digit", minute: "2-digit", timeZone }).format(ms);
}
