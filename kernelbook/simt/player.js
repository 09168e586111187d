(() => {
  "use strict";
  const root = document.querySelector('[data-kb-player="KEY"]:not([data-ready])');
  if (!root) return;
  const data = JSON.parse(root.querySelector(".kb-data").textContent);
  if (!data.steps.length) return; // the table says that nothing happens
  const LOAD = 0, STORE = 1, ATOMIC = 2, MILLISECONDS = 900;

  const unpack = (p) =>
    Array.isArray(p) ? p : Array.from({ length: p.n }, (_, i) => p.from + i * p.by);
  for (const step of data.steps) {
    step.threads = unpack(step.threads);
    step.does = step.does.map(([kind, array, threads, cells]) => ({
      kind, array, threads: unpack(threads), cells: unpack(cells),
    }));
  }
  const make = (tag, name, parent, text) => {
    const node = document.createElement(tag);
    if (name) node.className = name;
    if (text !== undefined) node.textContent = text;
    if (parent) parent.append(node);
    return node;
  };

  // Head, controls, the sentence: above everything that changes, so that nothing moves.
  const live = make("div", "kb-live", root);
  make("p", "kb-head", live, data.title);
  data.remarks.forEach((text) => {
    const bad = data.steps.some((s) => s.bad.length) && text === data.remarks[0];
    make("p", bad ? "kb-remark kb-bad" : "kb-remark", live, text);
  });
  const bar = make("div", "kb-bar", live);
  const button = (text, label, action) => {
    const node = make("button", "", bar, text);
    node.type = "button";
    node.setAttribute("aria-label", label);
    node.title = label;
    node.addEventListener("click", action);
    return node;
  };
  const last = data.steps.length - 1;
  const bad = data.steps.map((s, n) => (s.bad.length ? n : -1)).filter((n) => n >= 0);
  const first = button("«", "First step (Home)", () => stop(show(0)));
  const back = button("‹", "Step back (left arrow)", () => stop(show(now - 1)));
  const playing = button("▶ play", "Play (space)", () => toggle());
  playing.style.minWidth = "5.2rem";
  const forward = button("›", "Step forward (right arrow)", () => stop(show(now + 1)));
  const end = button("»", "Last step (End)", () => stop(show(last)));
  if (bad.length) button("✕", "To the defect", () => stop(show(bad[bad.length - 1])));
  const slider = make("input", "", bar);
  slider.type = "range";
  slider.min = 0;
  slider.max = last;
  slider.setAttribute("aria-label", "Step");
  slider.addEventListener("input", () => stop(show(Number(slider.value))));
  const count = make("span", "kb-count", bar);
  const says = make("p", "kb-says", live);
  says.setAttribute("aria-live", "polite");

  // Panels.
  const panels = make("div", "kb-panels", live);
  const source = make("pre", "kb-source", panels);
  source.setAttribute("aria-label", "Source");
  source.tabIndex = 0;
  const lines = new Map();
  data.source.forEach((place, number) => {
    if (number) make("span", "kb-gap", source, "···");
    place.lines.forEach((text, n) => {
      const line = make("span", "kb-line", source);
      make("i", "", line, String(place.first + n));
      line.append(text);
      lines.set(`${number},${place.first + n}`, line);
    });
  });
  data.steps.forEach((s) => s.bad.length && lines.get(String(s.at))?.classList.add("kb-bad"));

  const right = make("div", "", panels);
  const grid = (columns) => {
    const cells = make("div", "kb-cells", right);
    cells.style.gridTemplateColumns = `2.9rem repeat(${columns}, minmax(0, 1fr))`;
    return cells;
  };
  const lanes = [];
  for (const warp of data.warps) {
    make("p", "kb-name", right, warp.name);
    const cells = grid(Math.min(16, warp.size));
    cells.setAttribute("role", "img");
    for (let n = 0; n < warp.size; n++) {
      if (n % 16 === 0) make("b", "", cells, String(data.threads[lanes.length]));
      lanes.push(make("span", "", cells));
    }
  }
  const arrays = data.arrays.map((array) => {
    make("p", "kb-name", right, array.name);
    const cells = grid(array.columns);
    cells.setAttribute("role", "img");
    cells.setAttribute("aria-label", array.name);
    const found = [];
    for (let n = 0; n < array.cells; n++) {
      if (n % array.columns === 0) make("b", "", cells, array.labels[n / array.columns]);
      found.push(make("span", "", cells));
    }
    return found;
  });
  make("p", "kb-key", right,
    "Lanes: r reads, w writes, a atomic, · runs the line, ‖ waits, ✓ done. " +
    "Cells: the thread that touches it, outlined when read, filled when written; tinted = written before.");

  // What each thread does next tells who waits: computed once.
  const mine = lanes.map(() => []);
  data.steps.forEach((s, n) => s.threads.forEach((t) => mine[t].push(n)));

  let now = 0, timer = 0;
  const states = ["kb-r", "kb-w", "kb-a", "kb-m", "kb-on", "kb-x", "kb-was", "kb-e"];
  const clear = (node) => {
    node.classList.remove(...states);
    node.textContent = "";
  };

  function show(step) {
    now = Math.max(0, Math.min(last, step));
    const at = data.steps[now];
    slider.value = now;
    slider.setAttribute("aria-valuetext", `step ${now + 1} of ${last + 1}: ${at.says}`);
    count.textContent = `step ${now + 1} / ${last + 1}`;
    says.textContent = at.says;
    says.className = at.bad.length ? "kb-says kb-bad" : at.meets ? "kb-says kb-meets" : "kb-says";
    first.disabled = back.disabled = now === 0;
    forward.disabled = end.disabled = now === last;

    source.querySelector(".kb-now")?.classList.remove("kb-now");
    const line = lines.get(String(at.at));
    if (line) {
      line.classList.add("kb-now");
      const top = line.offsetTop - source.offsetTop * (line.offsetParent === source ? 0 : 1);
      if (top < source.scrollTop || top + line.offsetHeight > source.scrollTop + source.clientHeight)
        source.scrollTop = top - source.clientHeight / 2; // scrolls the panel, never the page
    }

    lanes.forEach((lane, t) => {
      clear(lane);
      const next = mine[t].find((n) => n >= now);
      if (next === now) {
        lane.classList.add(at.meets ? "kb-m" : "kb-on");
        lane.textContent = at.meets ? "‖" : "·";
      } else if (next === undefined) {
        lane.classList.add("kb-x");
        lane.textContent = data.finished ? "✓" : "";
      } else if (data.steps[next].meets) {
        lane.textContent = "‖";
      }
    });
    arrays.forEach((cells) => cells.forEach(clear));
    for (let n = 0; n < now; n++)
      for (const { kind, array, cells } of data.steps[n].does)
        if (array >= 0 && kind !== LOAD)
          cells.forEach((c) => arrays[array][c].classList.add("kb-was"));
    const who = new Map();
    for (const { kind, array, threads, cells } of at.does) {
      if (kind > ATOMIC) continue;
      const name = ["kb-r", "kb-w", "kb-a"][kind], letter = "rwa"[kind];
      threads.forEach((t, n) => {
        lanes[t].classList.remove("kb-on");
        lanes[t].classList.add(name);
        const text = lanes[t].textContent.replace("·", "");
        if (!text.includes(letter)) lanes[t].textContent = text + letter;
        if (array < 0) return;
        const cell = arrays[array][cells[n]];
        cell.classList.add(name);
        who.set(cell, (who.get(cell) || new Set()).add(t));
      });
    }
    for (const [thread, array, cell] of at.bad) {
      lanes[thread].classList.add("kb-e");
      if (array >= 0) arrays[array][cell].classList.add("kb-e");
    }
    who.forEach((threads, cell) => {
      cell.textContent = threads.size === 1 ? String(data.threads[[...threads][0]]) : `×${threads.size}`;
    });
  }

  function stop() {
    clearInterval(timer);
    timer = 0;
    playing.textContent = "▶ play";
    playing.setAttribute("aria-label", "Play (space)");
  }
  function toggle() {
    if (timer) return stop();
    if (now === last) show(0);
    playing.textContent = "❚❚ stop";
    playing.setAttribute("aria-label", "Stop (space)");
    timer = setInterval(() => {
      if (!root.isConnected || now === last) return stop();
      show(now + 1);
    }, MILLISECONDS);
  }
  root.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const inside = event.target;
    const keys = {
      ArrowLeft: () => stop(show(now - 1)),
      ArrowRight: () => stop(show(now + 1)),
      Home: () => stop(show(0)),
      End: () => stop(show(last)),
      " ": toggle,
    };
    if (event.key === " " && inside.tagName === "BUTTON") return; // the button's own
    const act = keys[event.key];
    if (!act) return;
    act();
    event.preventDefault();
    event.stopPropagation();
  });

  root.setAttribute("data-ready", "");
  show(0);
})();
