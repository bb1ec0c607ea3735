/** The port with some of its methods replaced; the others are called as they are. */
export function overriding<Port extends object>(port: Port, overrides: Partial<Port>): Port {
  return new Proxy(port, {
    get: (target, name) => {
      if (Object.hasOwn(overrides, name)) return Reflect.get(overrides, name);
      const value: unknown = Reflect.get(target, name);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}
