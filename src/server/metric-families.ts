type Labels = Readonly<Record<string, string>>;
type IsShown = (labels: Labels) => boolean;

/** Numbers of one name, one for each set of labels. */
abstract class Family<Value> {
  readonly name: string;
  readonly #help: string;
  readonly #type: string;
  protected readonly series = new Map<string, { readonly labels: Labels; value: Value }>();

  constructor(name: string, help: string, type: string) {
    this.name = name;
    this.#help = help;
    this.#type = type;
  }

  text(isShown: IsShown): string {
    const lines = [...this.series.values()].filter(({ labels }) => isShown(labels)).flatMap((one) => this.lines(one));
    return `# HELP ${this.name} ${this.#help}\n# TYPE ${this.name} ${this.#type}\n${lines.map((line) => `${line}\n`).join("")}`;
  }

  protected abstract lines(one: { readonly labels: Labels; readonly value: Value }): string[];

  protected of(labels: Labels, first: () => Value): { value: Value } {
    let key = "";
    for (const name in labels) key += `${labels[name]}\n`;
    const known = this.series.get(key);
    if (known !== undefined) return known;
    const made = { labels, value: first() };
    this.series.set(key, made);
    return made;
  }
}

class Numbers extends Family<number> {
  add(labels: Labels, amount: number): void {
    this.of(labels, () => 0).value += amount;
  }

  protected lines({ labels, value }: { readonly labels: Labels; readonly value: number }): string[] {
    return [`${this.name}${shown(labels)} ${value}`];
  }
}

export class Counter extends Numbers {
  constructor(name: string, help: string) {
    super(name, help, "counter");
  }
}

export class Gauge extends Numbers {
  constructor(name: string, help: string) {
    super(name, help, "gauge");
  }
}

interface Distribution {
  /** How many fell into each bound, and not into the one before. */
  readonly counts: number[];
  sum: number;
  count: number;
}

export class Histogram extends Family<Distribution> {
  readonly #bounds: readonly number[];

  constructor(name: string, help: string, bounds: readonly number[]) {
    super(name, help, "histogram");
    this.#bounds = bounds;
  }

  add(labels: Labels, value: number): void {
    const { value: distribution } = this.of(labels, () => ({ counts: this.#bounds.map(() => 0), sum: 0, count: 0 }));
    const at = this.#bounds.findIndex((bound) => value <= bound);
    if (at >= 0) distribution.counts[at] = (distribution.counts[at] ?? 0) + 1;
    distribution.sum += value;
    distribution.count += 1;
  }

  protected lines({ labels, value }: { readonly labels: Labels; readonly value: Distribution }): string[] {
    let below = 0;
    const buckets = this.#bounds.map((bound, i) => {
      below += value.counts[i] ?? 0;
      return `${this.name}_bucket${shown({ ...labels, le: String(bound) })} ${below}`;
    });
    return [
      ...buckets,
      `${this.name}_bucket${shown({ ...labels, le: "+Inf" })} ${value.count}`,
      `${this.name}_sum${shown(labels)} ${value.sum}`,
      `${this.name}_count${shown(labels)} ${value.count}`,
    ];
  }
}

function shown(labels: Labels): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escaped(value)}"`);
  return pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
}

function escaped(value: string): string {
  return value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
}
