type Labels = Readonly<Record<string, string>>;
type IsShown = (labels: Labels) => boolean;

interface Series<Value> {
  readonly labels: Labels;
  value: Value;
}

/** Series by the values of their labels, one after the other: no text is made of them to find one. */
interface Branch<Value> {
  readonly next: Map<string, Branch<Value>>;
  series: Series<Value> | undefined;
}

/** Numbers of one name, one for each set of labels. */
abstract class Family<Value> {
  readonly name: string;
  readonly #help: string;
  readonly #type: string;
  readonly #series: Series<Value>[] = [];
  readonly #root: Branch<Value> = { next: new Map(), series: undefined };

  constructor(name: string, help: string, type: string) {
    this.name = name;
    this.#help = help;
    this.#type = type;
  }

  text(isShown: IsShown): string {
    const lines = this.#series.filter(({ labels }) => isShown(labels)).flatMap((one) => this.lines(one));
    return `# HELP ${this.name} ${this.#help}\n# TYPE ${this.name} ${this.#type}\n${lines.map((line) => `${line}\n`).join("")}`;
  }

  protected abstract lines(one: Readonly<Series<Value>>): string[];

  protected abstract first(): Value;

  protected of(labels: Labels): Series<Value> {
    let branch = this.#root;
    for (const name in labels) {
      const value = labels[name] as string;
      let next = branch.next.get(value);
      if (next === undefined) {
        next = { next: new Map(), series: undefined };
        branch.next.set(value, next);
      }
      branch = next;
    }
    if (branch.series === undefined) {
      branch.series = { labels, value: this.first() };
      this.#series.push(branch.series);
    }
    return branch.series;
  }
}

class Numbers extends Family<number> {
  add(labels: Labels, amount: number): void {
    this.of(labels).value += amount;
  }

  protected first(): number {
    return 0;
  }

  protected lines({ labels, value }: Readonly<Series<number>>): string[] {
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
    const { value: distribution } = this.of(labels);
    const at = this.#bounds.findIndex((bound) => value <= bound);
    if (at >= 0) distribution.counts[at] = (distribution.counts[at] ?? 0) + 1;
    distribution.sum += value;
    distribution.count += 1;
  }

  protected first(): Distribution {
    return { counts: this.#bounds.map(() => 0), sum: 0, count: 0 };
  }

  protected lines({ labels, value }: Readonly<Series<Distribution>>): string[] {
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
