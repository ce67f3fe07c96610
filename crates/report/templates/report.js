// Values under the pointer, and zoom by dragging. Without this script the page is complete: the
// figures carry every value as a native tooltip, the tables every number.
'use strict';
(() => {
  const NEAR = 26;
  for (const figure of document.querySelectorAll('figure')) {
    const svg = figure.querySelector('svg.chart');
    const data = svg && svg.querySelector('.data');
    if (data) start(figure, svg, data);
  }

  // Folded parts are printed too, and folded again afterwards.
  let opened = [];
  addEventListener('beforeprint', () => {
    opened = [...document.querySelectorAll('details:not([open])')];
    for (const part of opened) part.open = true;
  });
  addEventListener('afterprint', () => {
    for (const part of opened) part.open = false;
    opened = [];
  });

  function start(figure, svg, data) {
    const make = (name, attributes, parent) => {
      const element = document.createElementNS(svg.namespaceURI, name);
      for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
      parent.append(element);
      return element;
    };
    const [left, top, width, height] = data.dataset.plot.split(' ').map(Number);
    // A figure without them, such as of bars, cannot be zoomed.
    const zooms = Boolean(data.dataset.x);
    const axes = zooms && { x: axisOf(data.dataset.x), y: axisOf(data.dataset.y) };
    const whole = { x0: left, x1: left + width, y0: top, y1: top + height };
    let view = whole;

    const marks = [...data.querySelectorAll('.mark, .absent, .bound')].map((element) => {
      const [x, y, size = 1] = element.getAttribute('transform').match(/-?[\d.]+/g).map(Number);
      // Trials of a cell stand side by side; they stay as near when the figure is zoomed.
      const aside = Number(element.dataset.aside || 0);
      const title = element.querySelector('title');
      const text = title ? title.textContent : '';
      if (title) title.remove();
      return { element, x: x - aside, y, size, aside, text, fixed: element.classList.contains('absent') };
    }).sort((a, b) => a.x + a.aside - b.x - b.aside || a.y - b.y);
    const lines = [...data.querySelectorAll('polyline, polygon')].map((element) => ({
      element,
      points: element.getAttribute('points').trim().split(/\s+/).map((p) => p.split(',').map(Number)),
    }));

    const tip = document.createElement('div');
    tip.className = 'tip';
    tip.setAttribute('role', 'status');
    tip.hidden = true;
    const reset = document.createElement('button');
    reset.type = 'button';
    reset.textContent = 'Reset zoom';
    reset.hidden = true;
    figure.append(reset, tip);
    svg.setAttribute('tabindex', '0');
    figure.dataset.ready = String(marks.length);

    const toX = (x) => left + (x - view.x0) / (view.x1 - view.x0) * width;
    const toY = (y) => top + (y - view.y0) / (view.y1 - view.y0) * height;
    const place = (mark) => [toX(mark.x) + mark.aside, mark.fixed ? mark.y : toY(mark.y)];
    const within = (x, y) => x >= left && x <= left + width && y >= top && y <= top + height;
    const pointer = (event) => {
      const at = new DOMPoint(event.clientX, event.clientY);
      return at.matrixTransform(svg.getScreenCTM().inverse());
    };

    let current = null;
    function show(mark) {
      if (current) current.element.classList.remove('on');
      current = mark;
      tip.hidden = !mark;
      if (!mark) return;
      mark.element.classList.add('on');
      tip.textContent = mark.text;
      const [x, y] = place(mark);
      const at = new DOMPoint(x, y).matrixTransform(svg.getScreenCTM());
      const box = figure.getBoundingClientRect();
      const room = Math.max(0, box.width - tip.offsetWidth);
      tip.style.left = Math.min(room, Math.max(0, at.x - box.left - tip.offsetWidth / 2)) + 'px';
      const above = at.y - box.top - tip.offsetHeight - 14;
      tip.style.top = (above < 0 ? at.y - box.top + 14 : above) + 'px';
    }
    function nearest(at) {
      let best = null;
      let distance = NEAR * NEAR;
      for (const mark of marks) {
        const [x, y] = place(mark);
        const d = (x - at.x) ** 2 + (y - at.y) ** 2;
        if (mark.text && d < distance && within(x, y)) [best, distance] = [mark, d];
      }
      return best;
    }

    function look(next) {
      view = next;
      const zoomed = view !== whole;
      show(null);
      reset.hidden = !zoomed;
      svg.classList.toggle('zoomed', zoomed);
      for (const mark of marks) {
        const [x, y] = place(mark);
        mark.element.setAttribute('transform',
          `translate(${x.toFixed(1)} ${y.toFixed(1)}) scale(${mark.size})`);
      }
      for (const line of lines) {
        line.element.setAttribute('points',
          line.points.map(([x, y]) => `${toX(x).toFixed(1)},${toY(y).toFixed(1)}`).join(' '));
      }
      const old = svg.querySelector('.zoom-axes');
      if (old) old.remove();
      if (zoomed) drawAxes();
    }
    function drawAxes() {
      const group = make('g', { class: 'zoom-axes', 'font-size': '12.5' }, svg);
      data.before(group);
      const at = (axis, share) => axis.start + share * (axis.end - axis.start);
      const xs = [at(axes.x, (view.x0 - left) / width), at(axes.x, (view.x1 - left) / width)];
      const ys = [at(axes.y, 1 - (view.y1 - top) / height), at(axes.y, 1 - (view.y0 - top) / height)];
      for (const [position, text] of ticks(axes.x, xs[0], xs[1])) {
        const x = left + (position - xs[0]) / (xs[1] - xs[0]) * width;
        make('line', { class: 'grid', x1: x, x2: x, y1: top, y2: top + height }, group);
        make('text', { x, y: top + height + 18, 'text-anchor': 'middle' }, group).textContent = text;
      }
      for (const [position, text] of ticks(axes.y, ys[0], ys[1])) {
        const y = top + (1 - (position - ys[0]) / (ys[1] - ys[0])) * height;
        make('line', { class: 'grid', x1: left, x2: left + width, y1: y, y2: y }, group);
        make('text', { x: left - 8, y: y + 4.3, 'text-anchor': 'end' }, group).textContent = text;
      }
      make('rect', { class: 'frame', x: left, y: top, width, height }, group);
    }

    let drag = null;
    svg.addEventListener('pointerdown', (event) => {
      const at = pointer(event);
      if (!zooms || event.pointerType === 'touch' || event.button !== 0 || !within(at.x, at.y)) return;
      svg.setPointerCapture(event.pointerId);
      drag = { at, box: make('rect', { class: 'zoom-box', width: 0, height: 0 }, svg) };
      event.preventDefault();
      svg.focus({ preventScroll: true });
    });
    svg.addEventListener('pointermove', (event) => {
      const at = pointer(event);
      if (!drag) return show(nearest(at));
      const area = areaOf(drag.at, at);
      drag.box.setAttribute('x', area.x0);
      drag.box.setAttribute('y', area.y0);
      drag.box.setAttribute('width', area.x1 - area.x0);
      drag.box.setAttribute('height', area.y1 - area.y0);
    });
    svg.addEventListener('pointerup', (event) => {
      if (!drag) return show(nearest(pointer(event)));
      const area = areaOf(drag.at, pointer(event));
      drag.box.remove();
      drag = null;
      if (area.x1 - area.x0 < 8 || area.y1 - area.y0 < 8) return;
      const x = (x) => view.x0 + (x - left) / width * (view.x1 - view.x0);
      const y = (y) => view.y0 + (y - top) / height * (view.y1 - view.y0);
      look({ x0: x(area.x0), x1: x(area.x1), y0: y(area.y0), y1: y(area.y1) });
    });
    svg.addEventListener('pointercancel', () => {
      if (drag) drag.box.remove();
      drag = null;
    });
    svg.addEventListener('pointerleave', () => { if (!drag) show(null); });
    svg.addEventListener('blur', () => show(null));
    svg.addEventListener('dblclick', () => look(whole));
    reset.addEventListener('click', () => { look(whole); svg.focus({ preventScroll: true }); });
    svg.addEventListener('keydown', (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step) {
        const seen = marks.filter((mark) => mark.text && within(...place(mark)));
        const next = current ? seen.indexOf(current) + step : step > 0 ? 0 : seen.length - 1;
        if (seen[next]) show(seen[next]);
        event.preventDefault();
      } else if (event.key === 'Escape') {
        if (current) show(null); else look(whole);
      }
    });
    function areaOf(a, b) {
      const x = [a.x, b.x].map((v) => Math.min(left + width, Math.max(left, v))).sort((p, q) => p - q);
      const y = [a.y, b.y].map((v) => Math.min(top + height, Math.max(top, v))).sort((p, q) => p - q);
      return { x0: x[0], x1: x[1], y0: y[0], y1: y[1] };
    }
  }

  function axisOf(text) {
    const [scale, start, end, unit] = text.split(' ');
    return { log: scale === 'log', start: Number(start), end: Number(end), unit };
  }

  // Positions and labels of a stretch of an axis: steps of 1, 2, 2.5 or 5 × 10ⁿ.
  function ticks(axis, from, to) {
    const value = (position) => axis.log ? 10 ** position : position;
    const position = (v) => axis.log ? Math.log10(v) : v;
    const [low, high] = [value(from), value(to)];
    const found = [];
    if (axis.log && to - from > 0.7) {
      for (let exponent = Math.floor(from); exponent <= Math.ceil(to); exponent++) {
        for (const multiple of to - from > 2.5 ? [1] : [1, 2, 5]) found.push(multiple * 10 ** exponent);
      }
    } else {
      const rough = (high - low) / 6;
      const power = 10 ** Math.floor(Math.log10(rough));
      const step = power * [1, 2, 2.5, 5, 10].find((multiple) => multiple * power >= rough);
      for (let n = Math.ceil(low / step); n * step <= high; n++) found.push(n * step);
    }
    return found.filter((v) => v >= low && v <= high).map((v) => [position(v), label(v, axis.unit, high)]);
  }
  function label(number, of, end) {
    const digits = (n) => String(Number(n.toPrecision(6)));
    // `duration:1000000`: numbers are converted first.
    const [unit, conversion = '1'] = of.split(':');
    const [v, high] = [number * Number(conversion), end * Number(conversion)];
    if (unit === 'count') return digits(v);
    if (unit === 'share') return digits(v * 100) + ' %';
    if (v === 0 || unit === 'micro') return digits(v / 1e3);
    if (unit === 'bytes') {
      const power = Math.min(3, Math.max(0, Math.floor(Math.log2(v) / 10)));
      return digits(v / 1024 ** power) + [' B', ' KiB', ' MiB', ' GiB'][power];
    }
    const scales = unit === 'rate'
      ? [[2e6, 1e6, ' M'], [2e3, 1e3, ' k'], [-Infinity, 1, '']]
      : [[1e9, 1e9, ' s'], [1e6, 1e6, ' ms'], [1e3, 1e3, ' µs'], [-Infinity, 1, ' ns']];
    const measure = unit === 'rate' ? high : v * 1.0005;
    const [, factor, name] = scales.find(([least]) => measure >= least);
    return digits(v / factor) + name;
  }
})();
