// Makes table.txt. In a folder with core-0.17.0.jar of site.ycsb from Maven Central:
//   javac -cp core-0.17.0.jar Table.java
//   java --add-opens java.base/java.lang=ALL-UNNAMED -cp core-0.17.0.jar:. Table > table.txt
// The generators draw from ThreadLocalRandom, whose seed is set before the numbers are printed and
// set again before they are used.
import java.lang.reflect.Field;
import java.util.concurrent.ThreadLocalRandom;
import site.ycsb.Utils;
import site.ycsb.generator.*;

public class Table {
  static void seed(long s) throws Exception {
    ThreadLocalRandom.current();
    Field u = sun.misc.Unsafe.class.getDeclaredField("theUnsafe"); u.setAccessible(true);
    sun.misc.Unsafe unsafe = (sun.misc.Unsafe) u.get(null);
    Field f = Thread.class.getDeclaredField("threadLocalRandomSeed");
    unsafe.putLong(Thread.currentThread(), unsafe.objectFieldOffset(f), s);
  }
  static void rows(String name, NumberGenerator g, long s, int n) throws Exception {
    double[] us = new double[n];
    seed(s); for (int i = 0; i < n; i++) us[i] = ThreadLocalRandom.current().nextDouble();
    seed(s); for (int i = 0; i < n; i++) System.out.println(name + " " + String.format("%016x", Double.doubleToLongBits(us[i])) + " " + g.nextValue());
  }
  public static void main(String[] a) throws Exception {
    for (double theta : new double[]{0.5, 0.75, 0.99}) {
      rows("zipfian 1024 " + theta, new ZipfianGenerator(0, 1023, theta), 42, 100);
      rows("zipfian 100000 " + theta, new ZipfianGenerator(0, 99999, theta), 43, 100);
    }
    rows("scrambled 1024 0.99", new ScrambledZipfianGenerator(0, 1023, 0.99), 44, 200);
    rows("scrambled 1000000 0.99", new ScrambledZipfianGenerator(0, 999999, 0.99), 45, 100);
  }
}
