// Calls and allocations by the million, for the benchmark.
using System;
using System.Collections.Generic;

class Node { public Node Left, Right; public int Value; }

class Program {
    static int Fib (int n) { return n < 2 ? n : Fib (n - 1) + Fib (n - 2); }

    static Node Tree (int depth) {
        return depth == 0 ? null : new Node { Value = depth, Left = Tree (depth - 1), Right = Tree (depth - 1) };
    }

    static void Main (string[] args) {
        var kept = new Dictionary<int, Node> ();
        long sum = 0;
        for (int round = 0; round < int.Parse (args [0]); round++) {
            sum += Fib (16);
            kept [round % 100] = Tree (9);
        }
        Console.WriteLine (sum + kept.Count);
    }
}
